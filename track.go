package tarn

import (
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// This file gives references an identity, so that checks can name who acquired and who freed.

// track is what is known of one cycle of one slab.
type track struct {
	generation uint32
	size       int // bytes asked for
	pinned     int // bytes of the slab; not the slab itself, or no leak would be found
	acquired   Stack
	since      time.Time
	cycle      uint64
	before     *track // of an earlier cycle, for handles that are very stale

	mu   sync.Mutex
	last uint32               // the identity given last
	refs map[uint32]*refTrack // live and freed alike
	live int
}

// refTrack is what is known of one reference.
type refTrack struct {
	length   int // bytes it shows
	acquired Stack
	freed    Stack // not nil once freed
}

const (
	firstIdentity = 1
	remembered    = 4 // cycles of a slab whose tracks are kept
)

// checks are the tracked slabs that are out.
type checks struct {
	every   int
	profile *pprof.Profile
	mu      sync.Mutex
	out     map[*track]struct{}
}

// profile is the process-wide profile of outstanding tracked buffers.
var profile = sync.OnceValue(func() *pprof.Profile {
	const name = "tarn.buffers"
	if p := pprof.Lookup(name); p != nil {
		return p
	}
	return pprof.NewProfile(name)
})

// setChecks prepares what the level of checks needs.
func (p *Pool) setChecks() {
	switch p.config.Check {
	case CheckSampled:
		p.samples.check = oneIn(p.config.CheckEvery)
	case CheckAll:
		p.samples.check = always
	case CheckGuard:
		p.samples.check = always
		p.guard = newGuardian(p.config.GuardBytes)
	default:
		return
	}
	p.checks = &checks{every: p.config.CheckEvery, profile: profile(), out: map[*track]struct{}{}}
	if p.config.Check != CheckSampled {
		p.checks.every = 1
	}
}

// track begins to watch a slab about to be handed out, and returns its first reference's identity.
func (p *Pool) track(s *slab, n int) (identity uint64) {
	t := &track{
		generation: generation(atomic.LoadUint64(&s.state)),
		size:       n,
		pinned:     len(s.mem),
		acquired:   here(2), // track and hand; and Get, whose caller it is
		since:      time.Now(),
		cycle:      p.cycle.Load(),
		before:     s.track.Load(),
		last:       firstIdentity,
		refs:       map[uint32]*refTrack{},
		live:       1,
	}
	t.refs[firstIdentity] = &refTrack{length: n, acquired: t.acquired}
	forgetBefore(t)
	s.track.Store(t)
	s.due |= dueUntrack
	if p.config.Check != CheckSampled && !s.foreign {
		s.due |= duePoison
	}
	p.checks.mu.Lock()
	p.checks.out[t] = struct{}{}
	p.checks.mu.Unlock()
	p.checks.profile.Add(t, 3)
	return firstIdentity
}

// forgetBefore bounds how many cycles a slab remembers.
func forgetBefore(t *track) {
	for i := 1; t != nil; i++ {
		if i == remembered {
			t.before = nil
		}
		t = t.before
	}
}

// untrack ends the watch of a slab that has come home.
func (p *Pool) untrack(s *slab) {
	p.checks.end(s.track.Load())
}

func (c *checks) end(t *track) {
	c.mu.Lock()
	delete(c.out, t)
	c.mu.Unlock()
	c.profile.Remove(t)
}

// find is the track of a key's cycle, nil if it is forgotten.
func (s *slab) find(key uint64) *track {
	for t := s.track.Load(); t != nil; t = t.before {
		if t.generation == generation(key) {
			return t
		}
	}
	return nil
}

// history is where a tracked reference was acquired and freed, as far as it is remembered.
func (s *slab) history(key uint64) (acquired, freed Stack) {
	t := s.find(key)
	if t == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.refs[uint32(key&countMask)]; r != nil {
		return r.acquired, r.freed
	}
	return t.acquired, nil
}

// inspect panics if b is stale, or tracked and freed before.
func (b Buffer) inspect(op string) {
	if !current(atomic.LoadUint64(&b.slab.state), b.key) {
		b.stale(op)
	}
	if b.identity() == 0 {
		return
	}
	t := b.slab.find(b.key)
	if t == nil || t.ended(b.identity()) {
		b.stale(op)
	}
}

// ended tells whether a reference was freed, so long ago perhaps that it is forgotten.
func (t *track) ended(id uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refs[id]
	return r == nil || r.freed != nil
}

// anotherTracked is another for a tracked reference: the new one gets an identity of its own.
func (b Buffer) anotherTracked(op string, off, n int) Buffer {
	b.inspect(op)
	s := b.slab
	t := s.find(b.key)
	if t == nil || !retain(&s.state, b.key, 1) {
		b.stale(op)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.live++
	t.refs[t.last] = &refTrack{length: n, acquired: here(2)}
	return Buffer{s, b.key&genMask | tracked | uint64(t.last), off, n}
}

// resized returns b, whose length has changed, and lets its track know if it has one.
func (b Buffer) resized() Buffer {
	if b.identity() == 0 {
		return b
	}
	if t := b.slab.find(b.key); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if r := t.refs[b.identity()]; r != nil {
			r.length = b.n
		}
	}
	return b
}

// endTracked notes that a tracked reference is given up, and panics if it was before.
func (b Buffer) endTracked(op string) {
	b.inspect(op)
	t := b.slab.find(b.key)
	if t == nil {
		b.stale(op)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refs[b.identity()]
	if r == nil || r.freed != nil { // two goroutines freed it at once
		panic(&Misuse{Kind: DoubleFree, Op: op, Pool: b.slab.pool.Name(), Size: len(b.slab.mem), Acquired: t.acquired})
	}
	r.freed = here(2)
	t.live--
	t.prune(b.identity())
}

// prune bounds what is remembered of freed references.
func (t *track) prune(freed uint32) {
	const most = 1024
	if len(t.refs) <= t.live+most {
		return
	}
	for id, r := range t.refs {
		if r.freed != nil && id != freed {
			delete(t.refs, id)
			if len(t.refs) <= t.live+most/2 {
				return
			}
		}
	}
}

// leaked reports a slab that was collected while referenced, if it was watched. The others are
// counted like this one, in Stats.Leaked.
func (p *Pool) leaked(s *slab) {
	if s.due&dueUntrack == 0 {
		return
	}
	t := s.track.Load()
	p.checks.end(t)
	p.teller.tell(Misuse{Kind: Leak, Op: "Get", Pool: p.Name(), Size: len(s.mem), Acquired: t.acquired})
}
