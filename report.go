package tarn

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// reporter counts misuse, and reports it: to the config's Report, or on standard error.
type reporter struct {
	report  func(Misuse)
	misused atomic.Uint64 // Stats.Misused

	mu     sync.Mutex
	places map[place]*MisuseCount // at most maxPlaces, and one for each kind
}

// place is where references come from that were misused in one way: the lines that a reader looks for. Without lines it stands
// for all places of its kind that are not distinguished.
type place struct {
	kind            MisuseKind
	acquired, freed string
}

// maxPlaces bounds the places that are distinguished; those of the others are counted as one of their kind.
const maxPlaces = 64

// MisuseCount says how often references made at one place were misused in one way.
type MisuseCount struct {
	Kind     MisuseKind
	Acquired Stack  // where the first of these references was made; empty where checks did not track them
	Freed    Stack  // where it was freed before
	Count    uint64 // so far; of leaks, an estimate where a sample is tracked
}

// Misuses lists the misuse found so far, the most frequent first: that of up to 64 places, and the rest by kind. Leaks are in it
// where checks tracked them; Stats.Leaked counts all. Safe for concurrent use.
func (p *Pool) Misuses() []MisuseCount {
	r := &p.reporter
	r.mu.Lock()
	list := make([]MisuseCount, 0, len(r.places))
	for _, c := range r.places {
		list = append(list, *c)
	}
	r.mu.Unlock()
	for i := range list {
		if list[i].Kind == Leak {
			list[i].Count *= uint64(p.config.every())
		}
	}
	slices.SortFunc(list, func(a, b MisuseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind), slices.Compare(a.Acquired, b.Acquired))
	})
	return list
}

// add reports a misuse that no call panics with.
func (r *reporter) add(m Misuse) {
	if r.report == nil {
		r.print(os.Stderr, m)
		return
	}
	r.count(m)
	r.report(m)
}

// panicking reports a misuse that the caller panics with. The panic prints it.
func (r *reporter) panicking(m Misuse) {
	r.count(m)
	if r.report != nil {
		r.report(m)
	}
}

// print writes the first misuse of a kind and place with its stacks, then the second, the fourth, the eighth and so
// on in a line with their number: a program that does it in a loop must not flood its log.
func (r *reporter) print(w io.Writer, m Misuse) {
	at, n := r.count(m)
	switch text := m.Error(); {
	case n == 1:
		fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
	case n&(n-1) == 0:
		line, _, _ := strings.Cut(text, "\n")
		if at.acquired != "" {
			line += ", acquired at " + at.acquired
		}
		if at.freed != "" {
			line += ", freed at " + at.freed
		}
		fmt.Fprintf(w, "%s (%d of these so far)\n", line, n)
	}
}

// count counts m, and returns how many there were of its kind and place.
func (r *reporter) count(m Misuse) (place, uint64) {
	switch m.Kind {
	case UseAfterFree, DoubleFree, WriteAfterFree:
		r.misused.Add(1)
	}
	at := place{kind: m.Kind}
	if len(m.Acquired) > 0 {
		at.acquired, at.freed = m.Acquired.Title(), m.Freed.Title()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.places[at]
	if c == nil && at.acquired != "" && len(r.places) >= maxPlaces {
		at = place{kind: m.Kind}
		m.Acquired, m.Freed = nil, nil
		c = r.places[at]
	}
	if c == nil {
		if r.places == nil {
			r.places = make(map[place]*MisuseCount)
		}
		c = &MisuseCount{Kind: m.Kind, Acquired: m.Acquired, Freed: m.Freed}
		r.places[at] = c
	}
	c.Count++
	return at, c.Count
}
