package slab

import "sync/atomic"

// This file is what a holder of a reference does with it. Methods take the reference's key; op is the
// name of the caller's method, for the fault's text. Use of a stale key breaks rule 1 and panics with
// what Config.Fault returns.

// Stale reports whether the slab has left the key's generation.
func (s *Slab) Stale(key Key) bool { return !current(atomic.LoadUint64(&s.state), key) }

// Suspect reports whether the key may be stale: it is of another generation, it expects a sum above
// the present one, or it is tracked and has to be looked up. If it is suspect, call Verify. A state is
// above every key of a reference that lives, except where work is pending.
func (s *Slab) Suspect(key Key) bool {
	st := atomic.LoadUint64(&s.state)
	return !current(st, key) || uint32(st) < uint32(key)
}

// Verify panics if the key is stale: its slab was freed, or it is known that this reference was.
func (s *Slab) Verify(key Key, op string) {
	st := atomic.LoadUint64(&s.state)
	if !current(st, key) || spent(st, key) {
		s.panicStale(key, op)
	}
	if key.Identity() == 0 {
		return
	}
	c := s.track.Load().Find(generation(uint64(key)))
	if c == nil || c.Freed(key.Identity()) {
		s.panicStale(key, op)
	}
}

// Unique reports whether the reference is the only one to the slab.
func (s *Slab) Unique(key Key) bool {
	st := atomic.LoadUint64(&s.state)
	if !current(st, key) || uint32(st) < uint32(key) {
		s.Verify(key, "Unique")
	}
	return count(st) == key.weight()
}

// Ref makes a further reference, which weighs one and shows n bytes; of a nil slab, none.
func (s *Slab) Ref(key Key, op string, n int) Key {
	if s == nil {
		return 0
	}
	if uint64(key)&tracked != 0 {
		return s.refTracked(key, op, n)
	}
	expected := uint64(key) | ordinary
	if expected&countMask < maxCount && atomic.CompareAndSwapUint64(&s.state, expected, expected+1) {
		return Key(expected + 1)
	}
	next, ok := retain(&s.state, key, 1)
	if !ok {
		s.panicStale(key, op)
	}
	return Key(next&(genMask|countMask) | predicted)
}

// refTracked is Ref of a tracked reference: the new one gets a new identity.
func (s *Slab) refTracked(key Key, op string, n int) Key {
	s.Verify(key, op)
	c := s.track.Load().Find(generation(uint64(key)))
	if c == nil {
		s.panicStale(key, op)
	}
	if _, ok := retain(&s.state, key, 1); !ok {
		s.panicStale(key, op)
	}
	const skip = 3 // refTracked, Ref or Split, the method of tarn
	return key&Key(genMask|tracked) | Key(c.Add(n, skip))
}

// Split divides a reference, the caller's then no more, in two that show head and tail bytes.
func (s *Slab) Split(key Key, head, tail int) (Key, Key) {
	if uint64(key)&tracked != 0 {
		t := s.refTracked(key, "Split", tail)
		return s.Move(key, "Split", head), t
	}
	if uint64(key)&predicted != 0 { // it weighs one, and the head is freed before it, most likely
		return s.Ref(key, "Split", head), key
	}
	if !key.Divisible() {
		if _, ok := retain(&s.state, key, getWeight-1); !ok {
			s.panicStale(key, "Split")
		}
		key = Key(uint64(key)&genMask | getWeight)
	}
	if s.Stale(key) {
		s.panicStale(key, "Split")
	}
	return key.Divide()
}

// Join makes one reference of two of the same generation, which shows n bytes.
func (s *Slab) Join(key, next Key, n int) Key {
	if uint64(key)&tracked == 0 { // as Split shared a weight, Join adds it up
		sum := key.weight() + next.weight()
		st := atomic.LoadUint64(&s.state)
		if !current(st, key) || count(st) < sum || spent(st, key) || spent(st, next) {
			s.panicStale(key, "Join")
		}
		return Key(uint64(key)&genMask | sum)
	}
	s.endTracked(next, "Join", 3) // endTracked, Join, the method of tarn
	if drop(&s.state, next, 1) == droppedStale {
		s.panicStale(next, "Join")
	}
	return s.Move(key, "Join", n)
}

// Move returns the key of a reference that is handed over, and shows n bytes now. Where checks track
// it, that is a new key, so that every later use of the old one is found; a stale key panics.
func (s *Slab) Move(key Key, op string, n int) Key {
	if s.Suspect(key) {
		s.Verify(key, op)
	}
	if key.Identity() == 0 {
		return key
	}
	const skip = 3 // Move, the function of tarn or Slab that calls it, the method of tarn
	c := s.track.Load().Find(generation(uint64(key)))
	id, ok := c.Move(key.Identity(), n, skip)
	if !ok { // two goroutines handed it over at once
		s.panicStale(key, op)
	}
	return key&Key(genMask|tracked) | Key(id)
}

// Free gives a reference up; of a nil slab it does nothing. The last Free puts the slab back.
func (s *Slab) Free(key Key) {
	// It is inlined into Buffer.Free, and with it into the callers of that: the compiler's limit is
	// 80, this costs 74 and Buffer.Free 79.
	if int32(key) >= 0 || !atomic.CompareAndSwapUint64(&s.state, uint64(key), uint64(key)-1) {
		s.free(key) // not predicted, or predicted wrongly
	}
}

func (s *Slab) free(key Key) {
	if s == nil {
		return
	}
	if uint64(key)&special == 0 && atomic.CompareAndSwapUint64(&s.state, uint64(key)|ordinary, nextGeneration(uint64(key))) {
		s.class.idle.Put(s) // it was the only one, and nothing is pending
		return
	}
	if uint64(key)&tracked != 0 {
		s.endTracked(key, "Free", 4) // endTracked, free, Free, the method of tarn
	}
	switch drop(&s.state, key, key.weight()) {
	case droppedStale:
		s.panicStale(key, "Free")
	case droppedLast:
		s.class.idle.Put(s)
	case droppedPending:
		s.finish()
	}
}

// endTracked notes that a tracked reference is given up, and panics if it was before. The stack that is kept is the caller's without its
// innermost skip frames.
func (s *Slab) endTracked(key Key, op string, skip int) {
	s.Verify(key, op)
	c := s.track.Load().Find(generation(uint64(key)))
	if c == nil || !c.End(key.Identity(), skip) { // two goroutines freed it at once
		s.panicStale(key, op)
	}
}
