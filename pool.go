package tarn

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/publish"
)

// Allocator is anything that hands out buffers of n bytes: a Pool or an Arena.
type Allocator interface{ Get(n int) Buffer }

// Pool hands out Buffers and takes their slabs back. It is safe for concurrent use and needs no
// closing: a pool that nobody refers to is collected like anything else. Make one per client or
// server, or use Shared.
type Pool struct {
	ladder atomic.Pointer[ladder]
	watch  uint32 // a Get of a generation scattered to watch or below goes the long way
	samples

	config PoolConfig
	teller teller
	record *recorder // nil when nothing is recorded
	checks *checks   // nil when checks are off
	guard  *guardian // nil but with CheckGuard
	budget *budget   // nil without Budget and HighWater

	reserved atomic.Int64 // bytes of kept slabs
	owned    atomic.Int64 // bytes of all slabs
	peak     atomic.Int64 // the most that owned ever was
	large    atomic.Int64 // bytes of slabs above the largest class
	cycle    atomic.Uint64
	refused  atomic.Uint64
	loans    atomic.Uint64 // told to Observe
	oversize tally         // slabs above the largest class
	foreign  tally         // wrapped memory

	mu      sync.Mutex
	classes map[int]*class // every class the pool ever had, by size
}

// samples are thresholds on scattered generations.
type samples struct {
	record uint32
	check  uint32
}

// NewPool makes a pool. A config it cannot work with is an error that matches ErrConfig or
// ErrClasses; the caller is at fault.
func NewPool(config PoolConfig) (*Pool, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	p := &Pool{config: config, teller: teller{report: config.Report}, classes: map[int]*class{}}
	p.ladder.Store(newLadder(config.Classes, p.class))
	if config.Record == RecordOn {
		p.record = new(recorder)
		p.samples.record = oneIn(RecordEvery)
	}
	p.setChecks()
	if config.Budget > 0 || config.HighWater > 0 {
		p.budget = newBudget(config)
	}
	p.watch = max(p.samples.record, p.samples.check)
	if p.budget != nil || config.Zero != ZeroNever || config.Observe != nil {
		p.watch = always
	}
	countCycles(p)
	return p, nil
}

var shared = sync.OnceValue(func() *Pool {
	p, err := NewPool(PoolConfig{Name: "shared"})
	if err != nil {
		panic(err) // the zero config is good
	}
	return p
})

// Shared returns the process-wide pool with the default config, made at the first call. Nobody can
// replace or reconfigure it.
func Shared() *Pool { return shared() }

// Name returns the name from the pool's config.
func (p *Pool) Name() string { return p.config.Name }

// Get returns a Buffer of n bytes with a reference of its own to free (rule 1). Contents are
// undefined unless the config says otherwise. It never blocks and never fails: beyond the budget it
// allocates and counts it in Stats.OverBudget. Get(0) is the zero Buffer. A negative n panics, and
// so does one that Go's make could not serve.
func (p *Pool) Get(n int) Buffer {
	l := p.ladder.Load()
	if !l.within(n) {
		return p.getBeyond(n)
	}
	c := l.find(n).class
	s, _ := c.idle.Get().(*slab)
	if s == nil {
		return p.hand(p.makeSlab(c), n)
	}
	st := atomic.LoadUint64(&s.state)
	if scatter(generation(st)) <= p.watch {
		return p.hand(s, n)
	}
	publish.Store(&s.state, st|ordinary+whole) // the slab is ours alone, and nothing is due
	return Buffer{s, st + whole, 0, n}
}

// getBeyond is Get of a length that no class holds.
func (p *Pool) getBeyond(n int) Buffer {
	if n <= 0 {
		return empty(n)
	}
	return p.hand(p.makeOversize(n), n)
}

// empty is what Get returns for no bytes.
func empty(n int) Buffer {
	if n < 0 {
		panic(fmt.Sprintf("tarn: Get of %d bytes", n))
	}
	return Buffer{}
}

// Copy returns a Buffer with a copy of b.
func (p *Pool) Copy(b []byte) Buffer {
	buf := p.Get(len(b))
	copy(buf.Bytes(), b)
	return buf
}

// ClassSize returns the capacity in bytes of the slab that Get(n) would use; n itself above the
// largest class or when not positive.
func (p *Pool) ClassSize(n int) int {
	if l := p.ladder.Load(); l.within(n) {
		return l.find(n).size
	}
	return n
}

// Trim gives all idle memory up to the garbage collector now.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.classes {
		c.drain()
	}
}

// Refuse counts a slice that somebody tried to put into the pool and that did not come from it, and
// reports it. Adapters to interfaces with a Put call it; the slice itself is left to the garbage
// collector.
func (p *Pool) Refuse(b []byte) {
	p.refused.Add(1)
	p.teller.tell(Misuse{Kind: ForeignFree, Op: "Put", Size: cap(b), Pool: p.Name()})
}
