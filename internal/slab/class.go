package slab

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// class is one size of slabs: the idle ones, and the counts of all of them (books).
//
// Idle slabs lie in a sync.Pool at first: one per processor is reached without a lock, and a slab last
// used here is probably still in this processor's cache. A sync.Pool drops what was not used between
// two garbage collections; so after each collection the class takes its slabs out of it and shelves
// them, from where Get takes them when the sync.Pool is empty, until they are given up (see age.go).
//
// A sync.Pool does not report how much it holds. That is computed from the slabs: the generation of
// each counts its cycles, which costs Get and Free nothing.
type class struct {
	idle  sync.Pool
	size  int
	depot *Depot
	tally

	mu    sync.Mutex
	shelf []*Slab              // idle slabs that are not in the sync.Pool, longest idle first
	young []*Slab              // retained slabs that were idle at each garbage collection that they saw
	old   []weak.Pointer[Slab] // the other retained slabs: these have finalizers
	gone  int                  // how many of old are collected or discarded
	slabs int                  // how many retained slabs there are
	past  books                // of retained slabs that are gone
	shown books                // what Stats returned last: counters never run backwards
}

// books are counts of one class. In use is gets - frees - leaked.
type books struct {
	gets, frees, leaked uint64
	hits                uint64 // gets that allocated nothing; set only in what count shows
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
// itself, so the class refers to a new slab until a garbage collection finds it in use.
func (c *class) register(s *Slab) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young = append(c.young, s)
	c.slabs++
}

// watch lets the garbage collector find the young slabs that are in use, should they leak, and those
// that the sync.Pool has dropped: it has been emptied onto the shelf. It holds the lock for a batch.
func (c *class) watch() {
	const batch = 8
	for i := 0; ; {
		c.mu.Lock()
		if c.gone > len(c.old)/2 {
			c.compact()
		}
		for n := 0; n < batch && i < len(c.young); n++ {
			switch s := c.young[i]; {
			case !s.retained:
			case s.shelved:
				i++
				continue
			default:
				runtime.SetFinalizer(s, (*Slab).collected)
				s.finalized = true
				c.old = append(c.old, weak.Make(s))
			}
			last := len(c.young) - 1
			c.young[i], c.young[last] = c.young[last], nil
			c.young = c.young[:last]
		}
		done := i >= len(c.young)
		if len(c.young) == 0 {
			c.young = nil
		}
		c.mu.Unlock()
		if done {
			return
		}
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
	if s.finalized {
		c.gone++
	}
	s.retained = false
	c.slabs--
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
	// A slab that has been found unreachable and is not finalized yet is in no sum. Its misses are in the tally, and hits
	// are what remains of gets: so each of hits and misses must not run backwards, and gets is their sum.
	misses := c.misses.Load() // after gets: otherwise hits could be too many, and stay so
	hits := max(b.gets-min(misses, b.gets), c.shown.hits)
	c.shown = books{hits + misses, max(b.frees, c.shown.frees), max(b.leaked, c.shown.leaked), hits}
	return c.shown, b.inUse(), idle
}

func (t *tally) addTo(b *books) {
	b.frees += t.frees.Load() // first: a slab freed meanwhile must not seem freed but never got
	b.leaked += t.leaked.Load()
	b.gets += t.gets.Load()
}
