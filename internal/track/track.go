// Package track gives references an identity and remembers the stacks that made and freed them. It
// refers to no slab or pool: a Cycle describes one loan of one slab by figures alone, so that it
// keeps no slab reachable and leaks are found.
package track

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// First is the identity of a cycle's first reference.
const First uint32 = 1

const (
	remembered = 4    // cycles of one slab that are kept
	maxFreed   = 1024 // freed references that a cycle remembers
	stackDepth = 32   // frames of a stack
)

// Cycle is what is known of one loan of one slab, from its Get to its last Free. It is safe for
// concurrent use.
type Cycle struct {
	Generation uint32
	Size       int // bytes asked for
	Pinned     int // bytes of the slab
	Acquired   []uintptr
	Since      time.Time
	GC         uint64 // garbage collections counted at the Get
	before     *Cycle // an earlier cycle of the same slab, for very stale handles

	mu    sync.Mutex
	ended []uintptr             // where the last reference was freed
	last  uint32                // the identity given last
	refs  map[uint32]*reference // live and freed alike
	live  int
}

// reference is what is known of one reference.
type reference struct {
	length   int // bytes it shows
	acquired []uintptr
	freed    []uintptr // not nil once freed or handed over
}

// Here is the stack of the caller, without its innermost skip frames.
func Here(skip int) []uintptr {
	var pcs [stackDepth]uintptr
	return append([]uintptr(nil), pcs[:runtime.Callers(skip+2, pcs[:])]...)
}

// trim bounds how many cycles of a slab are remembered.
func (c *Cycle) trim() {
	for i := 1; c != nil; i++ {
		if i == remembered {
			c.before = nil
		}
		c = c.before
	}
}

// Find returns the cycle of a generation, c or an earlier one; nil if it is forgotten.
func (c *Cycle) Find(generation uint32) *Cycle {
	for c != nil && c.Generation != generation {
		c = c.before
	}
	return c
}

// Add notes a further reference to length bytes, made by the caller less skip frames, and returns its
// identity.
func (c *Cycle) Add(length, skip int) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.live++
	c.refs[c.last] = &reference{length: length, acquired: Here(skip + 1)}
	return c.last
}

// End notes that a reference is freed by the caller less skip frames. It reports false if it was
// freed before.
func (c *Cycle) End(id uint32, skip int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.refs[id]
	if r == nil || r.freed != nil {
		return false
	}
	r.freed = Here(skip + 1)
	if c.live--; c.live == 0 {
		c.ended = r.freed
	}
	c.prune(id)
	return true
}

// Move gives a reference, which shows length bytes now, a new identity: it is handed over by the
// caller less skip frames, and each later use of the old identity is a misuse. It reports false if the
// reference was freed before.
func (c *Cycle) Move(id uint32, length, skip int) (uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.refs[id]
	if r == nil || r.freed != nil {
		return 0, false
	}
	r.freed = Here(skip + 1)
	c.last++
	c.refs[c.last] = &reference{length: length, acquired: r.acquired}
	c.prune(id)
	return c.last, true
}

// Ended is where the last reference was freed, nil while one lives.
func (c *Cycle) Ended() []uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// prune bounds what is remembered of freed references.
func (c *Cycle) prune(freed uint32) {
	if len(c.refs) <= c.live+maxFreed {
		return
	}
	for id, r := range c.refs {
		if r.freed != nil && id != freed {
			delete(c.refs, id)
			if len(c.refs) <= c.live+maxFreed/2 {
				return
			}
		}
	}
}

// Freed reports whether a reference was freed, perhaps so long ago that it is forgotten.
func (c *Cycle) Freed(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.refs[id]
	return r == nil || r.freed != nil
}

// History is where a reference was acquired and freed, as far as it is remembered.
func (c *Cycle) History(id uint32) (acquired, freed []uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.refs[id]; r != nil {
		return r.acquired, r.freed
	}
	return c.Acquired, nil
}

// Reference describes a live reference.
type Reference struct {
	Length   int       // bytes it shows
	Acquired []uintptr // where it was made
}

// Live returns the live references, oldest first.
func (c *Cycle) Live() []Reference {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]uint32, 0, c.live)
	for id, r := range c.refs {
		if r.freed == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	list := make([]Reference, len(ids))
	for i, id := range ids {
		list[i] = Reference{c.refs[id].length, c.refs[id].acquired}
	}
	return list
}
