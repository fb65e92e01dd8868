package tarn

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// class is one size of slabs: the idle ones, and the books about all of them.
//
// Idle slabs lie in a sync.Pool: one per processor is reached without a lock, a slab last used
// here is likely still in this processor's cache, what was used since the last garbage collection
// survives it and what was not goes. What a sync.Pool cannot tell — how much there is — the slabs
// know themselves: each counts its own cycles in its generation, which costs Get and Free nothing.
type class struct {
	idle sync.Pool
	size int
	pool *Pool
	tally

	mu    sync.Mutex
	young []*slab              // the kept slabs made since the last garbage collection
	live  []weak.Pointer[slab] // the kept slabs that have seen one
	gone  int                  // how many of live are not any more
	past  books                // of kept slabs that are gone
	shown books                // what Stats said last: counters never run backwards
}

// books are counts of one class. In use is gets - frees - leaked.
type books struct {
	gets, frees, leaked uint64
}

// out is how many slabs are in use by the books.
func (b books) out() int64 { return max(int64(b.gets-b.frees-b.leaked), 0) }

// tally counts what is rare enough to count with atomics: allocations, and slabs that are not kept.
type tally struct {
	misses, dropped     atomic.Uint64
	gets, frees, leaked atomic.Uint64
}

// register adds a kept slab to the books. Weak pointers and finalizers cost more than the slab
// itself, so a new slab gets them after its first garbage collection; until then its class holds
// it. That keeps nothing for longer: a sync.Pool lets nothing go before its second one.
func (c *class) register(s *slab) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young = append(c.young, s)
}

// age lets the garbage collector have the young slabs, a batch for each turn of the lock.
func (c *class) age() {
	const batch = 8
	for more := true; more; {
		c.mu.Lock()
		if c.gone > len(c.live)/2 {
			c.compact()
		}
		n := min(len(c.young), batch)
		for _, s := range c.young[len(c.young)-n:] {
			if s.kept {
				runtime.SetFinalizer(s, (*slab).collected)
				c.live = append(c.live, weak.Make(s))
			} else {
				c.gone-- // unregister took it for one of live
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
	kept := c.live[:0]
	for _, w := range c.live {
		if s := w.Value(); s != nil && s.kept {
			kept = append(kept, w)
		}
	}
	c.live, c.gone = kept, 0
}

// unregister closes the books of a kept slab in the given state.
func (c *class) unregister(s *slab, state uint64) {
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
	s.kept = false
}

// count adds up the books, how many slabs are out and how many lie idle.
func (c *class) count() (b books, out, idle int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b = c.past
	add := func(s *slab) {
		if s == nil || !s.kept {
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
	for _, w := range c.live {
		add(w.Value())
	}
	c.tally.addTo(&b)
	// A slab between being found unreachable and being finalized is in no sum for a moment.
	c.shown = books{max(b.gets, c.shown.gets), max(b.frees, c.shown.frees), max(b.leaked, c.shown.leaked)}
	return c.shown, b.out(), idle
}

func (t *tally) addTo(b *books) {
	b.frees += t.frees.Load() // first: a slab freed meanwhile must not seem freed but never got
	b.leaked += t.leaked.Load()
	b.gets += t.gets.Load()
}

// drain gives up the idle slabs of every processor.
func (c *class) drain() {
	for {
		s, _ := c.idle.Get().(*slab)
		if s == nil {
			return
		}
		s.discard()
	}
}
