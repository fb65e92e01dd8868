package tarn

// RecordEvery is how many Gets one recorded Get represents, on average.
const RecordEvery = 256

// Histogram is what a pool has recorded: how often it was asked for which size, and how long
// buffers lived. Counts only grow. It marshals to JSON.
type Histogram struct {
	Name      string      `json:"name,omitempty"`
	Every     int         `json:"every"`   // one Get in so many was looked at; counts are scaled up by it
	Peak      int64       `json:"peak"`    // Stats.Peak, in bytes
	Classes   []int       `json:"classes"` // the size classes in force, ascending
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
	h := Histogram{Name: p.Name(), Every: RecordEvery, Peak: p.depot.Peak(), Classes: p.Classes()}
	if p.recorder == nil {
		return h
	}
	p.recorder.Sizes(func(size int, count, bytes uint64) {
		h.Sizes = append(h.Sizes, SizeCount{size, count * RecordEvery, bytes * RecordEvery})
	})
	p.recorder.Lifetimes(func(cycles int, count uint64) {
		h.Lifetimes = append(h.Lifetimes, LifeCount{cycles, count * RecordEvery})
	})
	return h
}
