package slab

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// class is one size of slabs: the idle ones, and the books about all of them.
//
// Idle slabs lie in a sync.Pool: one per processor is reached without a lock, a slab last used here is
// probably still in this processor's cache, slabs used since the last garbage collection survive it
// and others do not. A sync.Pool cannot say how much it holds. The slabs can: each counts its own
// cycles in its generation, which costs Get and Free nothing.
type class struct {
	idle  sync.Pool
	size  int
	depot *Depot
	tally

	mu    sync.Mutex
	young []*Slab              // the retained slabs made since the last garbage collection
	old   []weak.Pointer[Slab] // the retained slabs that have seen one
	gone  int                  // how many of old are collected or discarded
	past  books                // of retained slabs that are gone
	shown books                // what Stats returned last: counters never run backwards
}

// books are counts of one class. In use is gets - frees - leaked.
type books struct {
	gets, frees, leaked uint64
}

// inUse is how many slabs are in use by the books.
func (b books) inUse() int64 { return max(int64(b.gets-b.frees-b.leaked), 0) }

// tally counts what is rare enough to count with atomics: allocations, and slabs that are not
// retained.
type tally struct {
	misses, dropped     atomic.Uint64
	gets, frees, leaked atomic.Uint64
}

// register adds a retained slab to the books. Weak pointers and finalizers cost more than the slab
// itself, so a new slab gets them after its first garbage collection; until then its class refers to
// it. That retains nothing for longer: a sync.Pool drops nothing before its second collection.
func (c *class) register(s *Slab) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young = append(c.young, s)
}

// age lets the garbage collector have the young slabs, a batch each time the lock is held.
func (c *class) age() {
	const batch = 8
	for more := true; more; {
		c.mu.Lock()
		if c.gone > len(c.old)/2 {
			c.compact()
		}
		n := min(len(c.young), batch)
		for _, s := range c.young[len(c.young)-n:] {
			if s.retained {
				runtime.SetFinalizer(s, (*Slab).collected)
				c.old = append(c.old, weak.Make(s))
			} else {
				c.gone-- // unregister counted it as one of old
			}
		}
		clear(c.young[len(c.young)-n:])
		c.young = c.young[:len(c.young)-n]
		if more = len(c.young) > 0; !more {
			c.young = nil
		}
		c.mu.Unlock()
	}
}

// compact drops the entries of slabs that are gone.
func (c *class) compact() {
	kept := c.old[:0]
	for _, w := range c.old {
		if s := w.Value(); s != nil && s.retained {
			kept = append(kept, w)
		}
	}
	c.old, c.gone = kept, 0
}

// unregister closes the books of a retained slab in the given state.
func (c *class) unregister(s *Slab, state uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cycles := s.cycles(state)
	c.past.gets += cycles
	c.past.frees += cycles
	if count(state) > 0 {
		c.past.gets++
		c.past.leaked++
	}
	c.gone++
	s.retained = false
}

// count adds up the books, how many slabs are in use and how many are idle.
func (c *class) count() (b books, inUse, idle int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b = c.past
	add := func(s *Slab) {
		if s == nil || !s.retained {
			return
		}
		st := atomic.LoadUint64(&s.state)
		cycles := s.cycles(st)
		b.gets += cycles
		b.frees += cycles
		if count(st) > 0 {
			b.gets++
		} else {
			idle++
		}
	}
	for _, s := range c.young {
		add(s)
	}
	for _, w := range c.old {
		add(w.Value())
	}
	c.tally.addTo(&b)
	// A slab that has been found unreachable and is not finalized yet is in no sum.
	c.shown = books{max(b.gets, c.shown.gets), max(b.frees, c.shown.frees), max(b.leaked, c.shown.leaked)}
	return c.shown, b.inUse(), idle
}

func (t *tally) addTo(b *books) {
	b.frees += t.frees.Load() // first: a slab freed meanwhile must not seem freed but never got
	b.leaked += t.leaked.Load()
	b.gets += t.gets.Load()
}

// drain gives up the idle slabs of every processor.
func (c *class) drain() {
	for {
		s, _ := c.idle.Get().(*Slab)
		if s == nil {
			return
		}
		s.discard()
	}
}
