package track

import (
	"runtime/pprof"
	"sync"
	"time"
)

// Registry holds the cycles whose slabs are out. It is safe for concurrent use.
type Registry struct {
	profile *pprof.Profile
	mu      sync.Mutex
	out     map[*Cycle]struct{}
}

// profile is the process-wide profile of outstanding tracked buffers.
var profile = sync.OnceValue(func() *pprof.Profile {
	const name = "tarn.buffers"
	if p := pprof.Lookup(name); p != nil {
		return p
	}
	return pprof.NewProfile(name)
})

// NewRegistry returns an empty Registry, whose cycles appear in the pprof profile tarn.buffers.
func NewRegistry() *Registry { return &Registry{profile: profile(), out: map[*Cycle]struct{}{}} }

// Begin notes that a slab of pinned bytes is handed out for size bytes in the given generation, by
// the caller less skip frames, and returns its cycle with one reference, First. before is the
// slab's cycle before, if it was tracked.
func (r *Registry) Begin(generation uint32, size, pinned int, gc uint64, before *Cycle, skip int) *Cycle {
	c := &Cycle{
		Generation: generation, Size: size, Pinned: pinned, Acquired: Here(skip + 1),
		Since: time.Now(), GC: gc, before: before,
		last: First, refs: map[uint32]*reference{}, live: 1,
	}
	c.refs[First] = &reference{length: size, acquired: c.Acquired}
	c.trim()
	r.mu.Lock()
	r.out[c] = struct{}{}
	r.mu.Unlock()
	r.profile.Add(c, skip+1)
	return c
}

// End notes that a slab was freed or leaked.
func (r *Registry) End(c *Cycle) {
	r.mu.Lock()
	delete(r.out, c)
	r.mu.Unlock()
	r.profile.Remove(c)
}

// Out returns the cycles whose slabs are out, in no order.
func (r *Registry) Out() []*Cycle {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Cycle, 0, len(r.out))
	for c := range r.out {
		list = append(list, c)
	}
	return list
}
