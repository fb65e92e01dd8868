package tarn

import (
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/budget"
	"github.com/tarn-go/tarn/internal/guard"
	"github.com/tarn-go/tarn/internal/record"
	"github.com/tarn-go/tarn/internal/slab"
	"github.com/tarn-go/tarn/internal/track"
)

// Allocator is anything that hands out buffers of n bytes: a Pool or an Arena.
type Allocator interface{ Get(n int) Buffer }

// Pool hands out Buffers and takes their slabs back. It is safe for concurrent use and needs no
// closing: a pool without references to it is garbage-collected like anything else. Make one per
// client or server, or use Shared.
type Pool struct {
	depot    slab.Depot
	config   PoolConfig
	recorder *record.Recorder // nil when nothing is recorded
	tracks   *track.Registry  // nil when checks are off
	budget   *budget.Budget   // nil without Budget and HighWater
	reporter reporter
	refused  atomic.Uint64
}

// NewPool makes a pool. An invalid config is an error that matches ErrConfig or ErrClasses.
func NewPool(config PoolConfig) (*Pool, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	p := &Pool{config: config, reporter: reporter{report: config.Report}}
	engine := slab.Config{
		Owner: p, Classes: config.Classes, Retain: config.Retain, Zero: slab.ZeroPolicy(config.Zero),
		Fault: p.misuse, Report: p.report,
	}
	if config.Record == RecordOn {
		p.recorder = new(record.Recorder)
		engine.Recorder, engine.RecordEvery = p.recorder, RecordEvery
	}
	if config.Check > CheckOff {
		p.tracks = track.NewRegistry()
		engine.Tracks, engine.TrackEvery = p.tracks, config.every()
	}
	if config.Check >= CheckAll {
		engine.Poison = slab.PoisonTracked
	}
	if config.Check == CheckGuard {
		engine.Guard = guard.NewQuarantine(config.GuardBytes)
	}
	if config.Budget > 0 || config.HighWater > 0 {
		p.budget = newBudget(config)
		engine.Budget = p.budget
	}
	if observe := config.Observe; observe != nil {
		engine.Loaned = func(number uint64, size int) { observe(Loan{Number: number, Size: size}) }
		engine.Returned = func(number uint64) { observe(Loan{Number: number}) }
	}
	p.depot.Init(engine)
	return p, nil
}

var shared = sync.OnceValue(func() *Pool {
	p, err := NewPool(PoolConfig{Name: "shared"})
	if err != nil {
		panic(err) // the zero config is valid
	}
	return p
})

// Shared returns the process-wide pool with the default config, made at the first call. It cannot be
// replaced or reconfigured.
func Shared() *Pool { return shared() }

// Name returns the name from the pool's config.
func (p *Pool) Name() string { return p.config.Name }

// Check returns the level of the pool's checks in force, never CheckDefault. Who fills a Buffer again while it is Unique
// frees it in between at CheckGuard: a view that somebody has kept would not fault.
func (p *Pool) Check() CheckLevel { return p.config.Check }

// Get returns a Buffer of n bytes with a reference of its own to free (rule 1). Contents are
// undefined unless the config says otherwise. It never blocks and never fails: beyond the budget it
// allocates and counts it in Stats.OverBudget. Get(0) is the zero Buffer. A negative n panics, and
// so does one that Go's make could not serve.
func (p *Pool) Get(n int) Buffer {
	s, key := p.depot.Get(n)
	return Buffer{s, key, 0, n}
}

// Copy returns a Buffer with a copy of b, a reference of its own to free (rule 1), as Get does.
func (p *Pool) Copy(b []byte) Buffer {
	buf := p.Get(len(b))
	copy(buf.Bytes(), b)
	return buf
}

// Wrap makes a Buffer of memory from elsewhere: mmap, cgo, a caller's slice. The pool takes b until
// the last reference is freed, and then calls release(b) exactly once, on the goroutine of that
// Free; release may be nil. Foreign memory never enters the pool's idle memory and counts in
// Stats.Wrapped alone. Wrap allocates one small record. If the Buffer is leaked rather than freed,
// release is never called: slices of b may still be in use.
func (p *Pool) Wrap(b []byte, release func([]byte)) Buffer {
	s, key := p.depot.Wrap(b, release)
	return Buffer{s, key, 0, len(b)}
}

// ClassSize returns the capacity in bytes of the slab that Get(n) would use; n itself above the
// largest class or when not positive.
func (p *Pool) ClassSize(n int) int { return p.depot.ClassSize(n) }

// Classes returns a copy of the size classes in force: bytes, ascending.
func (p *Pool) Classes() []int { return p.depot.Classes() }

// SetClasses changes the pool's size classes while it is in use; Get and Free go on without a lock.
// Classes in both lists keep their idle slabs. The idle slabs of the others are given up now, and
// their slabs in use are given up once they have been freed and lain idle. A bad list is an error
// that matches ErrClasses, and changes nothing; the list in force is no change. Safe for concurrent
// use.
func (p *Pool) SetClasses(sizes []int) error {
	if err := checkClasses(sizes); err != nil {
		return err
	}
	p.depot.SetClasses(sizes)
	return nil
}

// Trim gives idle memory up to the garbage collector now: all that the processor on which it runs can get. Of each size
// class, every other processor keeps up to two slabs to itself, until garbage collections find them.
func (p *Pool) Trim() { p.depot.Trim() }

// Refuse counts a slice that was to be put into the pool and did not come from it, and reports it.
// Adapters to interfaces with a Put call it; the slice itself is left to the garbage collector.
func (p *Pool) Refuse(b []byte) {
	p.refused.Add(1)
	p.reporter.add(Misuse{Kind: ForeignFree, Op: "Put", Size: cap(b), Pool: p.Name()})
}

// ExplainFault says whose memory a fault hit that CheckGuard provoked: recovered is what recover
// returned on a goroutine that had called debug.SetPanicOnFault(true). It reports false for anything
// else, and for memory that has left the quarantine. Without SetPanicOnFault a fault ends the program
// with the stack of the read alone.
func (p *Pool) ExplainFault(recovered any) (*Misuse, bool) {
	fault, ok := recovered.(interface{ Addr() uintptr })
	if !ok {
		return nil, false
	}
	f, ok := p.depot.FaultAt(fault.Addr())
	if !ok {
		return nil, false
	}
	m := p.describe(f)
	m.Used = faultingStack()
	return &m, true
}

// misuse is what the pool panics with about a stale reference. It is counted and reported before: whoever recovers may not say so.
func (p *Pool) misuse(f slab.Fault) any {
	m := p.describe(f)
	p.reporter.panicking(m)
	return &m
}

func (p *Pool) report(f slab.Fault) { p.reporter.add(p.describe(f)) }

func (p *Pool) describe(f slab.Fault) Misuse {
	return Misuse{Kind: MisuseKind(f.Kind), Op: f.Op, Pool: p.Name(), Size: f.Size, Acquired: f.Acquired, Freed: f.Freed}
}

// MisuseKind and slab.Kind list the same kinds.
const (
	_ = uint(MisuseKind(slab.WriteAfterFree) - WriteAfterFree)
	_ = uint(WriteAfterFree - MisuseKind(slab.WriteAfterFree))
)
