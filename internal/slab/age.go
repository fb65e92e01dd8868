package slab

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
	"weak"
)

// This file decides how long idle slabs are kept. Time is counted in garbage collections, and, for a
// program that makes no garbage, in periods of a timer.
//
// In an idle process the runtime neither collects garbage nor gives memory back to the system: the timer makes it do
// both, once for each time the process becomes idle.
//
// After each collection the slabs of the sync.Pool are shelved, as it would drop them at the next but
// one. A slab that lies on the shelf for maxIdleCycles collections or for a whole period is given up:
// so a burst within three collections of the last one allocates nothing, and an idle process shrinks.
// When the process comes close to its memory limit (GOMEMLIMIT), the shelf is emptied at once.
const (
	maxIdleCycles = 3
	trimPeriod    = 4 * time.Second
	maxQuiet      = 15       // periods without idle slabs, after which the timer stops
	apartFrom     = 64 << 10 // bytes of a class from which on an idle process empties its sync.Pool if it is unused
	maxShelved    = 4096     // slabs that one collection shelves of a class; the sync.Pool drops the rest

	// limitPressed is the share of the memory limit from which on nothing is kept idle: the collector
	// begins to work harder near it.
	limitPressed = 0.9
	// collectShare is by how much of what the last collection when idle left the heap's memory must have
	// grown to be worth another one; collectFrom is the least, in bytes.
	collectShare = 0.25
	collectFrom  = 4 << 20
	// idleShare is the most that an idle process allocates in a period, as a share of its heap's
	// memory; idleBytes is what it may in any case.
	idleShare = 1.0 / 64
	idleBytes = 1 << 20
	// collectPause is how many times as long as a collection when idle takes there is none after it: they
	// take a hundredth of the time at most.
	collectPause = 100
)

// shelve takes the idle slabs out of the sync.Pool, except one that another processor keeps to itself:
// that is found by its finalizer if it is not used before the sync.Pool drops it, at the second collection; an
// idle process runs both (see collect). For two collections after its use the runtime refers to a sync.Pool, and
// so to the depot; therefore this does not use those that hold nothing.
func (c *class) shelve(age, period uint64) {
	if !c.hasUnshelved() {
		return
	}
	const batch = 16
	for range maxShelved / batch {
		if c.shelveBatch(batch, age, period) < batch {
			return
		}
	}
}

// shelveBatch shelves up to most slabs and returns how many. A Get that finds the sync.Pool empty
// meanwhile waits for the lock, and then finds them on the shelf.
func (c *class) shelveBatch(most int, age, period uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range most {
		s, _ := c.idle.Get().(*Slab)
		if s == nil {
			return n
		}
		c.put(s, age, period)
	}
	return most
}

// put shelves an idle slab that the caller owns, with the lock held. period is the first to begin from
// now on.
func (c *class) put(s *Slab, age, period uint64) {
	s.shelved, s.atAge, s.atPeriod = true, age, period
	c.shelf = append(c.shelf, s)
}

// take returns the slab shelved last, nil if there is none.
func (c *class) take() *Slab {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.shelf) - 1
	if last < 0 {
		return nil
	}
	s := c.shelf[last]
	c.shelf[last] = nil
	c.shelf = c.shelf[:last]
	s.shelved = false
	return s
}

// recover shelves a slab that the sync.Pool has dropped before it could be shelved. Its weak pointer
// and its finalizer are gone, so it counts as young again.
func (c *class) recover(s *Slab) {
	d := c.depot
	c.mu.Lock()
	defer c.mu.Unlock()
	s.finalized = false
	c.gone++
	c.young = append(c.young, s)
	c.put(s, d.age.Load(), d.period.Load()+1)
}

// expire gives up the slabs on the shelf, longest idle first, as long as they are old, and returns
// their bytes.
func (c *class) expire(old func(s *Slab) bool) (bytes int64) {
	c.mu.Lock()
	n := 0
	for n < len(c.shelf) && old(c.shelf[n]) {
		c.shelf[n].shelved = false
		n++
	}
	given := append([]*Slab(nil), c.shelf[:n]...)
	left := copy(c.shelf, c.shelf[n:])
	clear(c.shelf[left:])
	if c.shelf = c.shelf[:left]; left == 0 {
		c.shelf = nil
	}
	c.mu.Unlock()
	for _, s := range given {
		bytes += int64(len(s.mem))
		s.discard()
	}
	return bytes
}

// drain gives up all idle slabs, except those that other processors keep to themselves.
func (c *class) drain() {
	for {
		s, _ := c.idle.Get().(*Slab)
		if s == nil {
			break
		}
		s.discard()
	}
	c.expire(func(*Slab) bool { return true })
}

// hasUnshelved reports whether a slab is in use or in the sync.Pool.
func (c *class) hasUnshelved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slabs > len(c.shelf)
}

// isUnused reports whether the class has served no Get and no Free since the last call. Only the timer calls it, once a
// period.
func (c *class) isUnused() bool {
	b, _, _ := c.count()
	served := b.gets + b.frees
	unused := served == c.served
	c.served = served
	return unused
}

// awaitsFinalizers reports whether the collector has found retained slabs unreachable whose finalizers have not run yet.
func (c *class) awaitsFinalizers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := 0
	for _, s := range c.young {
		if s.retained {
			found++
		}
	}
	for _, w := range c.old {
		if s := w.Value(); s != nil && s.retained {
			found++
		}
	}
	return found < c.slabs
}

// hasApart reports whether there are idle slabs that are not on the shelf: after shelve, those that other
// processors keep to themselves.
func (c *class) hasApart() bool {
	_, _, idle := c.count()
	return int(idle) > c.shelved()
}

// shelved is how many slabs are on the shelf.
func (c *class) shelved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shelf)
}

// sentinel is garbage from the start: its finalizer runs once in each garbage collection.
type sentinel struct{ depot weak.Pointer[Depot] }

// countCycles lets d count garbage collections until d itself is collected.
func countCycles(d *Depot) {
	runtime.SetFinalizer(&sentinel{weak.Make(d)}, (*sentinel).tick)
}

func (s *sentinel) tick() {
	d := s.depot.Value()
	if d == nil {
		return
	}
	runtime.SetFinalizer(s, (*sentinel).tick)
	cycle, age, cycles := d.cycle.Load()+1, d.nextAge(), uint64(maxIdleCycles)
	defer d.cycle.Store(cycle) // last: a goroutine that sees the new number sees the work of this cycle done
	if nearLimit() {
		cycles = 0
	}
	for _, c := range d.allClasses() {
		c.shelve(age, d.period.Load()+1)
		c.expire(func(s *Slab) bool { return s.atAge+cycles <= age })
		c.watch()
	}
}

// nextAge counts a garbage collection for the shelves, unless it is one of collect's: these follow each other at once, and
// would give up what a class in use has on its shelf.
func (d *Depot) nextAge() uint64 {
	if d.uncounted.Load() > 0 {
		d.uncounted.Add(-1)
		return d.age.Load()
	}
	return d.age.Add(1)
}

// nearLimit reports whether the process uses most of the memory that GOMEMLIMIT allows.
func nearLimit() bool {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return false
	}
	used := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(used)
	return float64(used[0].Value.Uint64()-used[1].Value.Uint64()) > limitPressed*float64(limit)
}

// startTrimming starts the timer, unless it runs. While slabs are idle it goes off every trimPeriod and
// walks the shelves; it ends when there has been none for maxQuiet periods, and a new slab starts it. A Free
// does not: slabs that become idle after the end, without a new one, are given up by tick alone.
func (d *Depot) startTrimming() {
	if !d.trimming.Load() && d.trimming.CompareAndSwap(false, true) {
		d.quiet = 0
		d.scheduleTrim()
	}
}

func (d *Depot) scheduleTrim() {
	weakly := weak.Make(d)
	time.AfterFunc(trimPeriod, func() {
		if d := weakly.Value(); d != nil {
			d.trimPeriodically()
		}
	})
}

// trimPeriodically gives up what has been idle for a period. It runs one at a time.
func (d *Depot) trimPeriodically() {
	cycle, period := d.cycle.Load(), d.period.Add(1)
	idle := d.process.idle(cycle)
	again := false
	var apart []*class // unused, with slabs that single processors keep to themselves
	for _, c := range d.allClasses() {
		given := c.expire(func(s *Slab) bool { return s.atPeriod < period })
		d.process.gaveUp(given)
		c.shelve(d.age.Load(), period)
		c.watch() // drops the references to slabs that were given up
		if c.size >= apartFrom && c.isUnused() && c.hasApart() {
			apart = append(apart, c)
		}
		again = again || given > 0 || c.shelved() > 0
	}
	if idle && d.config.Collect == CollectWhenIdle && d.process.hasGrown() {
		d.collect(apart)
	}
	if d.quiet++; again {
		d.quiet = 0
	}
	if d.quiet < maxQuiet {
		d.scheduleTrim()
		return
	}
	d.trimming.Store(false)
}

// process is what the timer has measured of the process, to tell whether it is idle and what a collection would
// gain. Only the timer uses it, whose runs do not overlap.
type process struct {
	cycle     uint64    // the garbage collection before which the timer went off last
	allocated uint64    // the bytes that the process had allocated until then
	left      uint64    // the heap's memory after the last collection when idle, less what the pool gave up since; 0: there was none
	after     time.Time // no collection before
}

// idle reports whether the process has run no collection and allocated next to nothing since the last call, which was
// a period ago.
func (p *process) idle(cycle uint64) bool {
	heap, allocated := heapMemory()
	idle := cycle == p.cycle && float64(allocated-p.allocated) <= max(idleBytes, idleShare*float64(heap))
	p.cycle, p.allocated = cycle, allocated
	return idle
}

// hasGrown reports whether the heap has taken, or the pool given up, so much memory since the last collection when idle
// that another one is worth its time.
func (p *process) hasGrown() bool {
	heap, _ := heapMemory()
	return float64(heap) >= float64(p.left)+max(collectFrom, collectShare*float64(p.left)) && !time.Now().Before(p.after)
}

// gaveUp notes that so many bytes that the last collection when idle left are garbage now. A process whose pool is used
// without allocations has collected already when that use ends, and its heap does not grow then.
func (p *process) gaveUp(bytes int64) {
	p.left -= min(p.left, uint64(bytes))
}

// collected notes that a collection when idle, begun then, has ended.
func (p *process) collected(begun time.Time) {
	p.left, p.allocated = heapMemory()
	p.after = time.Now().Add(collectPause * time.Since(begun))
}

// collect calls debug.FreeOSMemory in an idle process. An idle process does not collect for two minutes, and after a
// collection the runtime keeps the memory until the next ones have shown that it is not needed: so a burst's garbage,
// the program's as well as what the timer gave up, would stay.
//
// A sync.Pool refers to what single processors keep to themselves until the second collection. If there are unused
// classes with such slabs, apart, two collections come before, and the finalizers of the slabs that these find give them
// up; tick shelves those that it gets out of the sync.Pool meanwhile. The collections empty the sync.Pools of all other
// classes too, whose slabs go to the shelf: so a class in use makes none again.
func (d *Depot) collect(apart []*class) {
	begun := time.Now()
	d.uncounted.Store(1)
	if len(apart) > 0 {
		d.uncounted.Store(1 + collectionsApart)
		d.empty(apart)
	}
	debug.FreeOSMemory()
	d.process.collected(begun)
}

// collectionsApart is how many garbage collections a sync.Pool takes to drop what no Get reaches; see empty.
const collectionsApart = 2

// empty gives up the idle slabs of classes, those too that single processors keep to themselves. After the first
// collection it waits for tick, which saves the slabs of other classes from being dropped by the second.
func (d *Depot) empty(classes []*class) {
	for _, c := range classes {
		c.emptying.Store(true)
		defer c.emptying.Store(false)
	}
	cycle := d.cycle.Load()
	runtime.GC()
	awaitFinalizers(func() bool { return d.cycle.Load() > cycle && !anyAwaits(classes) })
	runtime.GC()
	awaitFinalizers(func() bool { return !anyAwaits(classes) })
	for _, c := range classes {
		c.drain()
		c.watch()
	}
}

// anyAwaits reports whether one of classes awaits finalizers: a collection frees no slab before its finalizer has
// run, and finalizers run in no order.
func anyAwaits(classes []*class) bool {
	return slices.ContainsFunc(classes, (*class).awaitsFinalizers)
}

// awaitFinalizers asks maxAsks times, as it does not wait for ever for finalizers that a program's own one blocks, and
// lets other goroutines run yields times in between, as to ask takes a visit to each slab.
const (
	maxAsks = 1 << 12
	yields  = 1 << 6
)

// awaitFinalizers waits until done returns true. It does so without a channel, which would belong to the bubble of a
// test with testing/synctest, unlike the finalizers.
func awaitFinalizers(done func() bool) {
	for asks := 0; asks < maxAsks && !done(); asks++ {
		for range yields {
			runtime.Gosched()
		}
	}
}

// heapMemory returns the bytes of memory that the heap has from the system and has not given back, garbage
// included, and those that have ever been allocated.
func heapMemory() (heap, allocated uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64() + s[2].Value.Uint64(), s[3].Value.Uint64()
}
