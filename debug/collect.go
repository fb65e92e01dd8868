package debug

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/sizing"
)

// How long what was collected serves everybody who looks.
const (
	statsAge  = 500 * time.Millisecond // counters, and who holds what
	sizingAge = 5 * time.Second        // histogram and recommended ladder
)

// enough is how many sampled buffers make a better estimate than the histogram does.
const enough = 16

// share bounds what looking may cost: whatever took a time to make is kept for at least share times
// as long, so that the largest pool with everything watched still gives one part in share to its page.
const share = 20

// collector asks the pools, but never more often than the ages above allow: one request does the work
// while it holds the lock, and those that waited for it take its result.
type collector struct {
	program string
	started time.Time

	mu    sync.Mutex
	pools []watched
	last  *Snapshot
	until time.Time // last is good so long
}

// watched is a pool and what was made of its histogram last.
type watched struct {
	pool      *tarn.Pool
	name      string
	histogram *sizing.Histogram
	sizing    *Sizing
	until     time.Time // they are good so long
}

// newCollector names the pools: those without a name by their position, those with a name taken by
// an earlier pool by a number after it, so that a name picks one pool on the page and in metrics.
func newCollector(pools []*tarn.Pool) *collector {
	c := &collector{program: program(), started: time.Now()}
	taken := map[string]bool{}
	for i, p := range pools {
		if p == nil {
			continue
		}
		base := p.Name()
		if base == "" {
			base = fmt.Sprintf("pool %d", i+1)
		}
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s %d", base, n)
		}
		taken[name] = true
		c.pools = append(c.pools, watched{pool: p, name: name})
	}
	return c
}

func program() string {
	name, err := os.Executable()
	if err != nil {
		return "program"
	}
	return filepath.Base(name)
}

// snapshot returns the state of all pools, at most statsAge old. The result is shared.
func (c *collector) snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.last != nil && now.Before(c.until) {
		return c.last
	}
	s := &Snapshot{Time: now, Started: c.started.UnixMilli(), Program: c.program, Go: runtime.Version(), Pools: make([]Pool, len(c.pools))}
	for i := range c.pools {
		s.Pools[i] = c.pools[i].look(now)
	}
	c.last, c.until = s, goodUntil(now, statsAge)
	return s
}

// goodUntil says how long to keep what was begun at start and is complete now.
func goodUntil(start time.Time, age time.Duration) time.Time {
	now := time.Now()
	return now.Add(max(age, share*now.Sub(start)))
}

// look makes the state of one pool.
func (w *watched) look(now time.Time) Pool {
	p := fromStats(w.pool.Stats())
	p.Name = w.name
	if w.sizing == nil || !now.Before(w.until) {
		start := time.Now()
		h := w.pool.Histogram()
		h.Name = w.name
		w.histogram, w.sizing = &h, advise(h)
		w.until = goodUntil(start, sizingAge)
	}
	p.Histogram, p.Sizing = w.histogram, w.sizing
	p.Pinned = int64(float64(p.InUse) * w.sizing.Waste)
	if p.Check != tarn.CheckOff.String() {
		list := w.pool.Outstanding()
		p.Outstanding = group(list)
		if len(list) >= enough || p.Check != tarn.CheckSampled.String() {
			p.Pinned = unseen(list)
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
		return &Sizing{NotRecorded: "No ladder can be computed: " + err.Error()}
	}
	return &Sizing{
		Waste: a.Now.Share(), BestWaste: a.Best.Share(),
		Ladder: a.Ladder, Keep: a.Keep, Knee: a.Knee, Saved: a.Saved,
		Oversize: a.Now.Oversize, Gets: a.Now.Gets, Curve: a.Curve, Go: sizing.GoLine(a.Ladder),
	}
}
