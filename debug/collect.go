package debug

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/debug/internal/names"
	"github.com/tarn-go/tarn/sizing"
)

// How long collected data is served again.
const (
	statsAge  = 500 * time.Millisecond // counters and outstanding buffers
	sizingAge = 5 * time.Second        // histogram and recommended ladder
)

// enough is from how many sampled buffers on they make a better estimate than the histogram.
const enough = 16

// share bounds the cost of the page: a result is kept for at least share times as long as it took to
// compute, so that at most one part in share of the time goes into it, even for the largest pool with
// every buffer watched.
const share = 20

// Watcher takes Snapshots of a Source's pools, but asks the pools at most twice a second and solves the
// ladder at most every five seconds, however many ask it: one caller does the work while it holds the
// lock, and those that waited for it take its result. Its methods are safe for concurrent use.
type Watcher struct {
	program string
	started time.Time
	source  Source

	mu    sync.Mutex
	pools map[*tarn.Pool]*watched
	names map[endpoint.Source]string // of endpoints
	last  *Snapshot
	until time.Time // last is served until then
}

// watched is a pool and what was made of its histogram last.
type watched struct {
	pool      *tarn.Pool
	name      string
	histogram *sizing.Histogram
	sizing    *Sizing
	until     time.Time // they are served until then
}

// NewWatcher returns a Watcher of source's pools.
func NewWatcher(source Source) *Watcher {
	return &Watcher{program: program(), started: time.Now(), source: source, pools: map[*tarn.Pool]*watched{}}
}

// present returns the records of the source's pools, in its order. It names new pools: those without
// a name by their position, those with a name taken by another by a number after it, so that a name
// picks one pool on the page and in metrics and a pool keeps its name while it is there.
func (c *Watcher) present() []*watched {
	pools := c.source.Pools()
	known := make(map[*tarn.Pool]*watched, len(pools))
	taken := map[string]bool{}
	for _, p := range pools {
		if w := c.pools[p]; w != nil {
			known[p] = w
			taken[w.name] = true
		}
	}
	var list []*watched
	for i, p := range pools {
		if p == nil {
			continue
		}
		w := known[p]
		if w == nil {
			w = &watched{pool: p, name: unused(names.Pool(p.Name(), i), taken)}
			known[p] = w
		}
		list = append(list, w)
	}
	c.pools = known
	return list
}

// endpoints looks at the source's servers and clients. They are named as pools are.
func (c *Watcher) endpoints() []endpoint.State {
	source, ok := c.source.(endpointSource)
	if !ok {
		return nil
	}
	var list []endpoint.State
	known, taken := map[endpoint.Source]string{}, map[string]bool{}
	sources := source.Endpoints()
	for _, e := range sources {
		if name := c.names[e]; name != "" {
			known[e], taken[name] = name, true
		}
	}
	for _, e := range sources {
		state := e.Endpoint()
		if known[e] == "" {
			base := state.Kind
			if state.Name != "" {
				base += " " + state.Name
			}
			known[e] = unused(base, taken)
		}
		state.Name = known[e]
		state.Methods = validNames(state.Methods)
		list = append(list, state)
	}
	c.names = known
	return list
}

// validNames returns methods with distinct names of UTF-8.
func validNames(methods []endpoint.Method) []endpoint.Method {
	if !slices.ContainsFunc(methods, func(m endpoint.Method) bool { return !utf8.ValidString(m.Name) }) {
		return methods
	}
	methods, taken := slices.Clone(methods), make(map[string]bool, len(methods))
	for i := range methods {
		methods[i].Name = unused(methods[i].Name, taken)
	}
	return methods
}

// unused returns base, or base with the first number after it that is not taken, and takes it. Bytes that are not UTF-8, which
// publishers replace, do not tell names apart.
func unused(base string, taken map[string]bool) string {
	name := names.Unused(strings.ToValidUTF8(base, "\uFFFD"), func(name string) bool { return taken[name] })
	taken[name] = true
	return name
}

func program() string {
	name, err := os.Executable()
	if err != nil {
		return "program"
	}
	return filepath.Base(name)
}

// Snapshot returns the state of all pools, at most half a second old, or twenty times as old as it took to
// make, if that is more. The result is shared: it is not to be changed.
func (c *Watcher) Snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.last != nil && now.Before(c.until) {
		return c.last
	}
	s := &Snapshot{Time: now, Started: c.started.UnixMilli(), Program: c.program, Go: runtime.Version(), Pools: []Pool{}}
	for _, w := range c.present() {
		s.Pools = append(s.Pools, w.look(now))
	}
	s.Endpoints = c.endpoints()
	c.last, c.until = s, goodUntil(now, statsAge)
	return s
}

// Names returns the names that a new Snapshot has for pools, servers and clients. It does not ask the pools for their
// Stats. A name stays as long as what it stands for is in the Source.
func (c *Watcher) Names() (pools, endpoints []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.present() {
		pools = append(pools, w.name)
	}
	for _, e := range c.endpoints() {
		endpoints = append(endpoints, e.Name)
	}
	return pools, endpoints
}

// goodUntil says how long to keep what was begun at start and is complete now.
func goodUntil(start time.Time, age time.Duration) time.Time {
	now := time.Now()
	return now.Add(max(age, share*now.Sub(start)))
}

// look makes the state of one pool.
func (w *watched) look(now time.Time) Pool {
	p := fromStats(w.pool.Stats())
	p.Misuses = misuses(w.pool, p.stats.Check)
	p.Name = w.name
	if w.sizing == nil || !now.Before(w.until) {
		start := time.Now()
		h := w.pool.Histogram()
		h.Name = w.name
		w.histogram, w.sizing = &h, advise(h)
		w.until = goodUntil(start, sizingAge)
	}
	p.Histogram, p.Sizing = w.histogram, w.sizing
	p.Pinned, p.Estimated = int64(float64(p.InUse)*w.sizing.Waste), true
	if p.Check != tarn.CheckOff.String() {
		list := w.pool.Outstanding()
		p.Outstanding = group(list)
		if len(list) >= enough || p.Check != tarn.CheckSampled.String() {
			p.Pinned, p.Estimated = unseen(list), p.Check == tarn.CheckSampled.String()
		}
	}
	p.Pinned = min(max(p.Pinned, 0), p.InUse)
	return p
}

// unseen adds up what watched buffers hold beyond what their references show.
func unseen(list []tarn.Outstanding) int64 {
	sum := int64(0)
	for _, o := range list {
		sum += int64(o.Every) * int64(max(o.Pinned-o.Seen, 0))
	}
	return sum
}

// advise turns a histogram into what the page shows of it.
func advise(h sizing.Histogram) *Sizing {
	a, err := sizing.Recommend(h, 0)
	switch {
	case errors.Is(err, sizing.ErrEmpty):
		return &Sizing{NotRecorded: "Nothing was recorded yet. A pool looks at one get in " + fmt.Sprint(max(h.Every, 1)) + "; with recording off it looks at none."}
	case err != nil:
		return &Sizing{NotRecorded: "No classes can be computed: " + err.Error()}
	}
	return &Sizing{
		Waste: a.Now.Share(), BestWaste: a.Best.Share(),
		Ladder: a.Ladder, Keep: a.Keep, Verdict: a.Verdict(), Knee: a.Knee, Saved: a.Saved,
		Oversize: a.Now.Oversize, Gets: a.Now.Gets, Curve: a.Curve, Go: sizing.GoLine(a.Ladder),
	}
}
