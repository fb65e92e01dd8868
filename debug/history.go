package debug

import (
	"sync"
	"time"
	"weak"

	"github.com/tarn-go/tarn/debug/endpoint"
)

// The history that a handler keeps: an hour.
const (
	historyStep   = 10 * time.Second
	historyLength = 360
)

// Past is what ?format=history serves of one pool, or of one server or client: its figures of the last hour, every ten seconds, the oldest
// first. Nothing was kept before Started, nor before what is shown was added to the handler's source.
type Past struct {
	Name    string      `json:"name"`
	Started int64       `json:"started"` // as that of Snapshot
	Pool    []PoolPoint `json:"pool,omitempty"`
	Calls   []CallPoint `json:"calls,omitempty"`
}

// PoolPoint is the figures of a pool at one time.
type PoolPoint struct {
	Time  int64  `json:"t"` // milliseconds of Unix time
	InUse int64  `json:"in_use_bytes"`
	Idle  int64  `json:"idle_bytes"`
	Gets  uint64 `json:"gets"`
	Hits  uint64 `json:"hits"`
}

// CallPoint is the figures of a server or client at one time.
type CallPoint struct {
	Time    int64   `json:"t"` // milliseconds of Unix time
	Calls   uint64  `json:"calls"`
	Done    uint64  `json:"done"`
	Failed  uint64  `json:"failed"`
	Seconds float64 `json:"seconds"`
}

// ring is the last historyLength points.
type ring[P any] struct {
	points []P
	oldest int // once points has its whole length
}

func (r *ring[P]) add(p P) {
	if len(r.points) < historyLength {
		r.points = append(r.points, p)
		return
	}
	r.points[r.oldest] = p
	r.oldest = (r.oldest + 1) % historyLength
}

// list returns the points, the oldest first.
func (r *ring[P]) list() []P {
	return append(append(make([]P, 0, len(r.points)), r.points[r.oldest:]...), r.points[:r.oldest]...)
}

// history has a ring, of 14 KiB, for each pool and each server or client that the source has.
type history struct {
	watcher *Watcher

	mu    sync.Mutex
	pools map[string]*ring[PoolPoint]
	calls map[string]*ring[CallPoint]
}

// newHistory returns a history to which a timer adds a point every ten seconds, until nothing refers to the history any more.
func newHistory(w *Watcher) *history {
	h := &history{watcher: w, pools: map[string]*ring[PoolPoint]{}, calls: map[string]*ring[CallPoint]{}}
	later(weak.Make(h), historyStep)
	return h
}

// later starts the timer that adds the next point, and starts itself again while the history is in use.
func later(history weak.Pointer[history], in time.Duration) {
	time.AfterFunc(in, func() {
		h := history.Value()
		if h == nil {
			return
		}
		start := time.Now()
		h.observe(start)
		later(history, max(historyStep, share*time.Since(start)))
	})
}

// observe adds a point. What is not in the source any more is forgotten.
func (h *history) observe(now time.Time) {
	pools, endpoints := h.watcher.figures()
	h.mu.Lock()
	defer h.mu.Unlock()
	t := now.UnixMilli()
	keptPools, keptCalls := make(map[string]*ring[PoolPoint], len(pools)), make(map[string]*ring[CallPoint], len(endpoints))
	for _, p := range pools {
		r := ringOf(h.pools, p.Name)
		r.add(PoolPoint{t, p.InUse, p.Idle, p.Gets, p.Hits})
		keptPools[p.Name] = r
	}
	for _, e := range endpoints {
		r := ringOf(h.calls, e.Name)
		r.add(CallPoint{t, e.Calls, e.Done, e.Failed, e.Seconds})
		keptCalls[e.Name] = r
	}
	h.pools, h.calls = keptPools, keptCalls
}

// ringOf returns the ring of a name, or a new one.
func ringOf[P any](rings map[string]*ring[P], name string) *ring[P] {
	if r := rings[name]; r != nil {
		return r
	}
	return &ring[P]{points: make([]P, 0, historyLength)} // append would take half as much again
}

// pool returns the past of a pool.
func (h *history) pool(name string) *Past {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Past{Name: name, Started: h.watcher.started.UnixMilli(), Pool: ringOf(h.pools, name).list()}
}

// endpoint returns the past of a server or client.
func (h *history) endpoint(name string) *Past {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Past{Name: name, Started: h.watcher.started.UnixMilli(), Calls: ringOf(h.calls, name).list()}
}

// figures returns the counters of all pools, servers and clients. Unlike a Snapshot it computes nothing, and looks at no buffer.
func (c *Watcher) figures() ([]Pool, []endpoint.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pools []Pool
	for _, w := range c.present() {
		s := w.pool.Stats()
		pools = append(pools, Pool{Name: w.name, InUse: s.InUse, Idle: s.Idle, Gets: s.Gets, Hits: s.Hits})
	}
	return pools, c.endpoints()
}
