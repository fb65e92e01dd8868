package slab

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/budget"
	"github.com/tarn-go/tarn/internal/guard"
	"github.com/tarn-go/tarn/internal/ladder"
	"github.com/tarn-go/tarn/internal/publish"
	"github.com/tarn-go/tarn/internal/record"
	"github.com/tarn-go/tarn/internal/track"
)

// ZeroPolicy says when memory is cleared.
type ZeroPolicy int

const (
	ZeroNever  ZeroPolicy = iota
	ZeroOnGet             // the bytes that Get returns
	ZeroOnFree            // the whole slab at the last Free
)

// PoisonPolicy says whether tracked slabs are overwritten at their last Free.
type PoisonPolicy int

const (
	PoisonNever PoisonPolicy = iota
	PoisonTracked
)

// Config configures a Depot. It has been validated: Classes are a ladder, figures are not negative.
type Config struct {
	Owner   any // what Slab.Owner returns
	Classes []int
	Retain  int64 // bytes
	Zero    ZeroPolicy

	Recorder    *record.Recorder // nil records nothing
	RecordEvery int

	Tracks     *track.Registry // nil tracks nothing
	TrackEvery int
	Poison     PoisonPolicy
	Guard      *guard.Quarantine // nil guards nothing

	Budget *budget.Budget // nil counts nothing

	Loaned   func(number uint64, size int) // observes each loan; nil does not
	Returned func(number uint64)           // observes its end; set with Loaned

	Fault  func(Fault) any // the value to panic with about a stale reference
	Report func(Fault)     // called with leaks, writes after free and unguarded slabs
}

// Depot makes slabs, hands references to them out and takes the slabs back, within a bound on what it
// retains. It is safe for concurrent use once Init has returned.
type Depot struct {
	ladder atomic.Pointer[ladder.Ladder[*class]]
	watch  uint32 // a Get of a generation that hashes to watch or below takes the slow path
	samples

	config Config

	reserved atomic.Int64  // bytes of retained slabs
	owned    atomic.Int64  // bytes of all slabs
	peak     atomic.Int64  // the maximum of owned
	large    atomic.Int64  // bytes of slabs above the largest class
	cycle    atomic.Uint64 // garbage collections seen
	period   atomic.Uint64 // periods of the trim timer
	trimming atomic.Bool   // the timer runs

	// Used only by the timer, whose runs do not overlap.
	quiet int // how many periods nothing was idle

	loans    atomic.Uint64
	oversize tally // slabs above the largest class
	foreign  tally // wrapped memory

	unguarded atomic.Bool // reported that a slab has no page protection

	mu      sync.Mutex
	classes map[int]*class // every class the depot ever had, by size
}

// samples are thresholds on hashed generations.
type samples struct {
	record uint32
	track  uint32
}

const always = math.MaxUint32

// oneIn is the threshold on hashed generations that samples one in n.
func oneIn(n int) uint32 {
	if n <= 1 {
		return always
	}
	return uint32((1<<32 - 1) / uint64(n))
}

// Init makes d a depot; it is called once, before anything else.
func (d *Depot) Init(config Config) {
	d.config = config
	d.classes = map[int]*class{}
	d.ladder.Store(ladder.New(config.Classes, d.class))
	if config.Recorder != nil {
		d.samples.record = oneIn(config.RecordEvery)
	}
	if config.Tracks != nil {
		d.samples.track = oneIn(config.TrackEvery)
	}
	d.watch = max(d.samples.record, d.samples.track)
	if config.Budget != nil || config.Zero != ZeroNever || config.Loaned != nil {
		d.watch = always
	}
	countCycles(d)
}

// inForce is the ladder in force. A depot without Init has none, and this panics: the zero Pool is not
// ready for use.
func (d *Depot) inForce() *ladder.Ladder[*class] {
	l := d.ladder.Load()
	if l == nil {
		panicZero()
	}
	return l
}

// Ready reports whether Init was called.
func (d *Depot) Ready() bool { return d.ladder.Load() != nil }

//go:noinline
func panicZero() {
	panic("tarn: the zero Pool is not ready for use; make one with NewPool, or use Shared")
}

// Get returns a slab and a reference to its first n bytes; nil if n is 0. It panics where make does.
func (d *Depot) Get(n int) (*Slab, Key) {
	l := d.inForce()
	if !l.Within(n) {
		return d.getBeyond(n)
	}
	c := l.Find(n).Class
	s, _ := c.idle.Get().(*Slab)
	if s == nil {
		if s = c.take(); s == nil {
			return d.hand(d.makeSlab(c), n, 0)
		}
	}
	if key, ok := d.lend(s); ok {
		return s, key
	}
	return d.hand(s, n, 0)
}

// lend hands an idle slab, which the caller owns, out if there is nothing to do for it but that. Otherwise it reports
// false, and hand does the rest.
func (d *Depot) lend(s *Slab) (Key, bool) {
	st := atomic.LoadUint64(&s.state)
	if sampleHash(generation(st)) <= d.watch {
		return 0, false
	}
	publish.Store(&s.state, st|ordinary+getWeight) // this goroutine alone owns the slab, and nothing is pending
	return Key(st + getWeight), true
}

// getBeyond is Get of a length that no class holds.
func (d *Depot) getBeyond(n int) (*Slab, Key) {
	switch {
	case n < 0:
		panic(fmt.Sprintf("tarn: Get of %d bytes", n))
	case n == 0:
		return nil, 0
	default:
		return d.hand(d.makeOversize(n), n, 0)
	}
}

// GetCharged is Get of n ≥ 1 bytes for which the budget has been charged already. If it panics, as make does where n is
// too large and as a function of the config may, the budget has the charge back.
func (d *Depot) GetCharged(n int, charge int64) (*Slab, Key) {
	handed := false
	defer func() {
		if !handed {
			d.config.Budget.Refund(charge)
		}
	}()
	s, key := d.hand(d.take(n), n, charge)
	handed = true
	return s, key
}

// take returns an idle slab, or a new one, that holds n ≥ 1 bytes.
func (d *Depot) take(n int) *Slab {
	l := d.inForce()
	if !l.Within(n) {
		return d.makeOversize(n)
	}
	c := l.Find(n).Class
	if s, _ := c.idle.Get().(*Slab); s != nil {
		return s
	}
	if s := c.take(); s != nil {
		return s
	}
	return d.makeSlab(c)
}

// Wrap returns a slab around memory from elsewhere; the last Free calls release, unless it is nil.
func (d *Depot) Wrap(mem []byte, release func([]byte)) (*Slab, Key) {
	d.inForce()
	s := newTransient(d, nil, mem[:len(mem):len(mem)])
	s.foreign = true
	s.release = release
	s.pending = pendingRelease
	d.foreign.gets.Add(1)
	return d.hand(s, len(mem), 0)
}

// class finds the class of a size, or makes it. Slabs of a size belong to one class permanently, so
// that a ladder that is put in force again finds its books. The caller holds mu, or is Init.
func (d *Depot) class(size int) *class {
	c := d.classes[size]
	if c == nil {
		c = &class{size: size, depot: d}
		d.classes[size] = c
	}
	return c
}

// ClassSize is the size of the slab that Get(n) would use; n itself where no class holds it.
func (d *Depot) ClassSize(n int) int {
	if l := d.inForce(); l.Within(n) {
		return l.Find(n).Size
	}
	return n
}

// Classes returns a copy of the ladder in force.
func (d *Depot) Classes() []int { return d.inForce().Sizes() }

// SetClasses changes the ladder, and gives up the idle slabs of sizes that are not in the new one.
func (d *Depot) SetClasses(sizes []int) {
	for _, c := range d.changeClasses(sizes) {
		c.drain()
	}
}

// changeClasses puts a ladder in force and returns the classes that are not in it any more.
func (d *Depot) changeClasses(sizes []int) (removed []*class) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.inForce().Sizes()
	if slices.Equal(sizes, old) {
		return nil
	}
	d.ladder.Store(ladder.New(sizes, d.class))
	for _, size := range old {
		if _, stays := slices.BinarySearch(sizes, size); !stays {
			removed = append(removed, d.classes[size])
		}
	}
	return removed
}

// allClasses returns every class the depot ever had. Giving slabs up may call Config.Report, which may
// use the depot: no lock is held then.
func (d *Depot) allClasses() []*class {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*class, 0, len(d.classes))
	for _, c := range d.classes {
		list = append(list, c)
	}
	return list
}

// Trim gives all idle memory up to the garbage collector.
func (d *Depot) Trim() {
	for _, c := range d.allClasses() {
		c.drain()
	}
}

// Peak is the most bytes that slabs ever took together; Cycle the garbage collections seen.
func (d *Depot) Peak() int64   { return d.peak.Load() }
func (d *Depot) Cycle() uint64 { return d.cycle.Load() }
