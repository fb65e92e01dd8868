package slab

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
	"weak"
)

// This file decides how long idle slabs are kept. Time is counted in garbage collections, and, for a
// program that makes no garbage, in periods of a timer.
//
// After each collection the slabs of the sync.Pool are shelved, as it would drop them at the next but
// one. A slab that lies on the shelf for maxIdleCycles collections or for a whole period is given up:
// so a burst within three collections of the last one allocates nothing, and an idle process shrinks.
// When the process comes close to its memory limit (GOMEMLIMIT), the shelf is emptied at once.
const (
	maxIdleCycles = 3
	trimPeriod    = 4 * time.Second
	maxQuiet      = 15   // periods without idle slabs, after which the timer stops
	maxShelved    = 4096 // slabs that one collection shelves of a class; the sync.Pool drops the rest

	// limitPressed is the share of the memory limit from which on nothing is kept idle: the collector
	// begins to work harder near it.
	limitPressed = 0.9
)

// shelve takes the idle slabs out of the sync.Pool, except one that another processor keeps to itself:
// that is found by its finalizer if it is not used before the sync.Pool drops it, at the second collection; an
// idle process runs both (see collect). For two collections after its use the runtime refers to a sync.Pool, and
// so to the depot; therefore this does not use those that hold nothing.
func (c *class) shelve(cycle, period uint64) {
	if !c.hasUnshelved() {
		return
	}
	const batch = 16
	for range maxShelved / batch {
		if c.shelveBatch(batch, cycle, period) < batch {
			return
		}
	}
}

// shelveBatch shelves up to most slabs and returns how many. A Get that finds the sync.Pool empty
// meanwhile waits for the lock, and then finds them on the shelf.
func (c *class) shelveBatch(most int, cycle, period uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range most {
		s, _ := c.idle.Get().(*Slab)
		if s == nil {
			return n
		}
		c.put(s, cycle, period)
	}
	return most
}

// put shelves an idle slab that the caller owns, with the lock held. period is the first to begin from
// now on.
func (c *class) put(s *Slab, cycle, period uint64) {
	s.shelved, s.atCycle, s.atPeriod = true, cycle, period
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
	c.put(s, d.cycle.Load()+1, d.period.Load()+1)
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
	cycle, cycles := d.cycle.Load()+1, uint64(maxIdleCycles)
	defer d.cycle.Store(cycle) // last: a goroutine that sees the new number sees the work of this cycle done
	if nearLimit() {
		cycles = 0
	}
	for _, c := range d.allClasses() {
		c.shelve(cycle, d.period.Load()+1)
		c.expire(func(s *Slab) bool { return s.atCycle+cycles <= cycle })
		c.watch()
	}
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
	period, again := d.period.Add(1), false
	for _, c := range d.allClasses() {
		given := c.expire(func(s *Slab) bool { return s.atPeriod < period })
		c.shelve(d.cycle.Load(), period)
		c.watch() // drops the references to slabs that were given up
		again = again || given > 0 || c.shelved() > 0
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
