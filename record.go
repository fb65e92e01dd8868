package tarn

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// RecordEvery is how many Gets one recorded Get stands for, on average.
const RecordEvery = 256

// Bounds of what is told apart.
const (
	recordFine      = 5                               // 32 buckets a doubling
	recordMost      = MaxClassSize                    // larger ones are counted with it
	recordBuckets   = (31 - recordFine) << recordFine // up to recordMost
	lifetimeBuckets = 16                              // 0, 1, 2, 3–4, 5–8, … GC cycles
)

// recorder counts sampled sizes and lifetimes. It is fixed memory and never allocates.
type recorder struct {
	sizes     [recordBuckets]atomic.Uint64
	bytes     [recordBuckets]atomic.Uint64 // that those Gets asked for, so that waste is exact within a bucket
	lifetimes [lifetimeBuckets]atomic.Uint64
}

// size counts one Get of n bytes.
func (r *recorder) size(n int) {
	n = min(n, recordMost)
	i := recordBucket(n)
	r.sizes[i].Add(1)
	r.bytes[i].Add(uint64(n))
}

// recordBucket is the log-linear bucket of a length up to recordMost; buckets are numbered from 0, and
// lengths up to 2<<recordFine have one each.
func recordBucket(n int) int {
	e := max(bits.Len(uint(n-1))-1-recordFine, 0)
	return e<<recordFine + (n-1)>>e
}

// life counts one slab that was out for some GC cycles.
func (r *recorder) life(cycles uint64) {
	k := 0
	if cycles > 0 {
		k = 1 + bits.Len64(cycles-1)
	}
	r.lifetimes[min(k, lifetimeBuckets-1)].Add(1)
}

// largest is the largest length in a bucket.
func largest(i uint) int {
	e := uint(0)
	if i >= 2<<recordFine {
		e = i>>recordFine - 1
	}
	return int(((i - e<<recordFine) + 1) << e)
}

// Histogram is what a pool has recorded: how often it was asked for which size, and how long
// buffers lived. Counts only grow. It marshals to JSON.
type Histogram struct {
	Name      string      `json:"name,omitempty"`
	Every     int         `json:"every"`   // one Get in so many was looked at; counts are scaled up by it
	Peak      int64       `json:"peak"`    // Stats.Peak, in bytes
	Classes   []int       `json:"classes"` // the ladder in force
	Sizes     []SizeCount `json:"sizes"`
	Lifetimes []LifeCount `json:"lifetimes"`
}

// SizeCount is how many Gets asked for at most Size bytes and more than the entry before. Buckets
// are log-linear, 32 to a doubling.
type SizeCount struct {
	Size  int    `json:"size"`
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes,omitempty"` // that those Gets asked for together; 0 means Count×Size
}

// LifeCount is how many slabs were out for at most Cycles garbage collections and more than the
// entry before.
type LifeCount struct {
	Cycles int    `json:"cycles"`
	Count  uint64 `json:"count"`
}

// Histogram returns a snapshot of what was recorded; with RecordOff it has no counts. It costs a
// walk over some 800 counters and allocates its result.
func (p *Pool) Histogram() Histogram {
	h := Histogram{Name: p.Name(), Every: RecordEvery, Peak: p.peak.Load(), Classes: p.Classes()}
	if p.record == nil {
		return h
	}
	for i := range p.record.sizes {
		if n := p.record.sizes[i].Load(); n > 0 {
			// The two counters are read one after the other: the bytes of a Get between them go.
			size := largest(uint(i))
			bytes := min(p.record.bytes[i].Load(), n*uint64(size))
			h.Sizes = append(h.Sizes, SizeCount{size, n * RecordEvery, bytes * RecordEvery})
		}
	}
	for k := range p.record.lifetimes {
		if n := p.record.lifetimes[k].Load(); n > 0 {
			h.Lifetimes = append(h.Lifetimes, LifeCount{1 << k >> 1, n * RecordEvery})
		}
	}
	return h
}

const always = math.MaxUint32

// oneIn is the threshold on scattered generations that samples one in n.
func oneIn(n int) uint32 {
	if n <= 1 {
		return always
	}
	return uint32((1<<32 - 1) / uint64(n))
}
