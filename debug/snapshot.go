package debug

import (
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/plot"
	"github.com/tarn-go/tarn/sizing"
)

// Snapshot is what the handler serves as JSON: the state of all its pools at one time. Fields may be
// added in later versions; those there stay. It owns all it refers to and is never changed once made.
type Snapshot struct {
	Time    time.Time `json:"time"`
	Started int64     `json:"started"` // when the handler was made, in milliseconds of Unix time
	Program string    `json:"program"` // base name of the executable
	Go      string    `json:"go"`      // runtime.Version
	Pools   []Pool    `json:"pools"`

	// Endpoints are servers and clients. ?format=live leaves their connections out.
	Endpoints []endpoint.State `json:"endpoints,omitempty"`
}

// Names returns the names of the pools, and of the servers and clients, in their order.
func (s *Snapshot) Names() (pools, endpoints []string) {
	for i := range s.Pools {
		pools = append(pools, s.Pools[i].Name)
	}
	for i := range s.Endpoints {
		endpoints = append(endpoints, s.Endpoints[i].Name)
	}
	return pools, endpoints
}

// Pool is the state of one pool. Byte counts are bytes of slabs unless said otherwise.
type Pool struct {
	Name    string  `json:"name"`
	Check   string  `json:"check"` // the level of checks: off, sampled, all, guard
	Classes []Class `json:"classes"`

	Gets    uint64 `json:"gets"`
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`
	Frees   uint64 `json:"frees"`
	Dropped uint64 `json:"dropped"`

	InUse   int64 `json:"in_use_bytes"`
	Idle    int64 `json:"idle_bytes"`
	Peak    int64 `json:"peak_bytes"`
	Retain  int64 `json:"retain_bytes"`
	Budget  int64 `json:"budget_bytes"` // 0: none
	Buffers int64 `json:"in_use_buffers"`

	// Pinned estimates the bytes in use that no reference shows: what rounding up to a class adds, or,
	// where checks watch references, all that views leave out of their slabs. Never above InUse.
	Pinned    int64 `json:"pinned_bytes"`
	Estimated bool  `json:"pinned_estimated"` // Pinned is computed from recorded sizes or sampled references

	Leaked     uint64 `json:"leaked"`
	Misused    uint64 `json:"misused"` // uses and frees of freed references, writes to freed memory
	Refused    uint64 `json:"refused"`
	OverBudget uint64 `json:"over_budget"`
	Waiting    int    `json:"waiting"`
	Cycles     uint64 `json:"gc_cycles"`

	// Misuses are the places of leaks and misuse, the most frequent first.
	Misuses []Misuse `json:"misuses,omitempty"`

	// Histogram, Sizing and Outstanding are left out of ?format=live.
	Histogram   *sizing.Histogram `json:"histogram,omitempty"`
	Sizing      *Sizing           `json:"sizing,omitempty"`
	Outstanding *Outstanding      `json:"outstanding,omitempty"`

	stats tarn.Stats // what the above was taken from, under the pool's own name
}

// Class is the state of one size class; Size 0, always last, represents requests above the largest.
type Class struct {
	Size    int    `json:"size"`
	Gets    uint64 `json:"gets"`
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`
	Frees   uint64 `json:"frees"`
	Dropped uint64 `json:"dropped"`
	InUse   int64  `json:"in_use"` // slabs
	Idle    int64  `json:"idle"`   // slabs
}

// Sizing is what package sizing makes of the pool's histogram, at most five seconds old.
type Sizing struct {
	Waste       float64        `json:"waste"`      // of the ladder in force: the share of slab bytes that was not asked for
	BestWaste   float64        `json:"best_waste"` // of the ladder recommended
	Ladder      []int          `json:"ladder"`     // recommended
	Keep        bool           `json:"keep"`       // the ladder in force is as good
	Verdict     string         `json:"verdict"`    // which of the two to take, in a sentence
	Knee        int            `json:"knee"`
	Saved       int64          `json:"saved_bytes"` // at the recorded peak, estimated
	Oversize    uint64         `json:"oversize"`    // gets above the ladder in force
	Gets        uint64         `json:"gets"`        // gets recorded, estimated
	Curve       []sizing.Point `json:"curve"`
	Go          string         `json:"go"`                     // the line to paste into a PoolConfig
	NotRecorded string         `json:"not_recorded,omitempty"` // why there is nothing, when there is nothing
}

// Outstanding are the buffers that checks watch and that are not freed yet, by where they were acquired.
type Outstanding struct {
	Watched int     `json:"watched"` // references looked at; where checks are sampled, more are out
	Groups  []Group `json:"groups"`  // the largest first, at most 64
	More    int     `json:"more"`    // groups left out
}

// Group are the references that one stack made and that are not freed yet. Counts and bytes are scaled up where
// checks are sampled.
type Group struct {
	Count  int      `json:"count"`
	Bytes  int64    `json:"bytes"`  // that their references show
	Pinned int64    `json:"pinned"` // of the slabs they hold
	Ages   [4]int   `json:"ages"`   // younger than a second, a minute, ten minutes, and older
	Oldest float64  `json:"oldest_seconds"`
	Stack  []Caller `json:"stack"` // innermost first, at most 32, without the pool's own frames
	Place  string   `json:"place"` // the innermost frame that is neither Tarn's nor the standard library's
}

// Caller is one frame of a stack.
type Caller struct {
	Func string `json:"func"`
	File string `json:"file"` // base name
	Line int    `json:"line"`
}

// maxMisuses bounds the places of misuse in a snapshot.
const maxMisuses = 16

// Misuse says how often references from one place were misused in one way.
type Misuse struct {
	Kind      string `json:"kind"` // such as "leak" or "double free"
	Count     uint64 `json:"count"`
	Estimated bool   `json:"estimated,omitempty"` // Count is an estimate, from a sample
	Acquired  string `json:"acquired,omitempty"`  // the function and line that acquired them; empty where checks did not track them
	Freed     string `json:"freed,omitempty"`     // the function and line that freed them before
}

// misuses are the places of misuse of a pool whose checks are of the given level.
func misuses(p *tarn.Pool, level tarn.CheckLevel) []Misuse {
	var list []Misuse
	for _, c := range p.Misuses() {
		if len(list) == maxMisuses {
			break
		}
		estimated := c.Kind == tarn.Leak && level == tarn.CheckSampled
		list = append(list, Misuse{c.Kind.String(), c.Count, estimated, c.Acquired.Title(), c.Freed.Title()})
	}
	return list
}

// String is m on one line, such as "≈ 4.9k leak: main.go:24".
func (m Misuse) String() string {
	text := plot.Count(float64(m.Count)) + " " + m.Kind
	if m.Estimated {
		text = "≈ " + text
	}
	if m.Acquired != "" {
		text += ": acquired by " + m.Acquired
	}
	if m.Freed != "" {
		text += ", freed by " + m.Freed
	}
	return text
}

// fromStats fills in the fields that come from Stats.
func fromStats(s tarn.Stats) Pool {
	p := Pool{
		stats: s,
		Name:  s.Name, Check: s.Check.String(),
		Gets: s.Gets, Hits: s.Hits, Misses: s.Misses, Frees: s.Frees, Dropped: s.Dropped,
		InUse: s.InUse, Idle: s.Idle, Peak: s.Peak, Retain: s.Retain, Budget: s.Budget, Buffers: s.InUseBuffers,
		Leaked: s.Leaked, Misused: s.Misused, Refused: s.Refused, OverBudget: s.OverBudget, Waiting: s.Waiting, Cycles: s.Cycles,
		Classes: make([]Class, len(s.Classes)),
	}
	for i, c := range s.Classes {
		p.Classes[i] = Class{c.Size, c.Gets, c.Hits, c.Misses, c.Frees, c.Dropped, c.InUse, c.Idle}
	}
	return p
}

// Stats returns the statistics that p was made from, under the pool's own name.
func (p Pool) Stats() tarn.Stats { return p.stats }

// HitRate is Hits/Gets, 1 before the first get.
func (p Pool) HitRate() float64 { return rate(p.Hits, p.Gets) }

// HitRate is Hits/Gets, 1 before the first get.
func (c Class) HitRate() float64 { return rate(c.Hits, c.Gets) }

func rate(hits, gets uint64) float64 {
	if gets == 0 {
		return 1
	}
	return min(float64(hits)/float64(gets), 1)
}
