// Package names keeps apart what is published under one name: pools, servers and clients that have the same
// name, or none.
package names

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"
)

// Pool returns the name of a pool, or, for one without a name, that of its position among others, from 0 on.
func Pool(name string, position int) string {
	if name == "" {
		return "pool " + strconv.Itoa(position+1)
	}
	return name
}

// Unused returns base if it is not taken, or else base with the first number after it, from 2 on, that is not.
// A number that base ends in is counted on: "frames 2" becomes "frames 3".
func Unused(base string, taken func(name string) bool) string {
	if !taken(base) {
		return base
	}
	n := 2
	if i := strings.LastIndexByte(base, ' '); i >= 0 {
		if last, err := strconv.Atoi(base[i+1:]); err == nil && last >= 1 {
			base, n = base[:i], last+1
		}
	}
	for ; ; n++ {
		if name := base + " " + strconv.Itoa(n); !taken(name) {
			return name
		}
	}
}

// Space is a set of names that several publishers share, so that no two publish under the same one. The zero
// value is empty and ready. Its methods are safe for concurrent use.
type Space struct {
	mu               sync.Mutex
	pools, endpoints map[string]*claims // the owner of each published name
}

// claims are the names of one Publisher: the published one by that which it asked for.
type claims struct {
	space            *Space
	publisher        weak.Pointer[Publisher]
	closed           bool
	pools, endpoints map[string]string
}

// Publisher is one user of a Space. Its names are free again when it is closed or garbage collected. Its methods
// are safe for concurrent use.
type Publisher struct{ claims *claims }

// Publisher returns a new user of the Space, without names.
func (s *Space) Publisher() *Publisher {
	p := &Publisher{&claims{space: s}}
	p.claims.publisher = weak.Make(p)
	runtime.AddCleanup(p, (*claims).close, p.claims)
	return p
}

// Claim is Set for the first names of a Publisher. Where another one has a name, it collects garbage first, in case
// that other is not in use any more: a program that makes its publishers anew, or one test after another, finds the
// names free.
func (p *Publisher) Claim(pools, endpoints []string) {
	got, gotEndpoints := p.Set(pools, endpoints)
	if slices.Equal(got, pools) && slices.Equal(gotEndpoints, endpoints) {
		return
	}
	p.Set(nil, nil)
	runtime.GC()
	p.Set(pools, endpoints)
}

// Set returns the names to publish pools and endpoints under: the same ones, or where another Publisher has one,
// that with a number after it. Each of the two lists has distinct names. A name that was in the last call keeps what
// it got then. Those that were in the last call and are not in this one are free for others. After Close Set
// returns its arguments.
func (p *Publisher) Set(pools, endpoints []string) (publishedPools, publishedEndpoints []string) {
	c := p.claims
	c.space.mu.Lock()
	defer c.space.mu.Unlock()
	if c.closed {
		return pools, endpoints
	}
	return c.set(&c.space.pools, &c.pools, pools), c.set(&c.space.endpoints, &c.endpoints, endpoints)
}

// Close frees all names of the Publisher.
func (p *Publisher) Close() { p.claims.close() }

func (c *claims) close() {
	c.space.mu.Lock()
	defer c.space.mu.Unlock()
	c.set(&c.space.pools, &c.pools, nil)
	c.set(&c.space.endpoints, &c.endpoints, nil)
	c.closed = true
}

// set makes names those that c has in owners and in had, by which it knows them. The caller holds the Space's lock.
func (c *claims) set(owners *map[string]*claims, had *map[string]string, names []string) []string {
	if *owners == nil {
		*owners = map[string]*claims{}
	}
	kept := make(map[string]string, len(names))
	for _, name := range names {
		if published, ok := (*had)[name]; ok {
			kept[name] = published
			delete(*had, name)
		}
	}
	for _, published := range *had {
		if (*owners)[published] == c {
			delete(*owners, published)
		}
	}
	*had = kept
	list := make([]string, len(names))
	for i, name := range names {
		published, ok := kept[name]
		if !ok {
			published = Unused(name, func(name string) bool {
				owner := (*owners)[name]
				return owner != nil && owner.publisher.Value() != nil
			})
			kept[name], (*owners)[published] = published, c
		}
		list[i] = published
	}
	return list
}
