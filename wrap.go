package tarn

// Wrap makes a Buffer of memory from elsewhere: mmap, cgo, a caller's slice. The pool takes b until
// the last reference is freed, and then calls release(b) exactly once, on the goroutine of that
// Free; release may be nil. Foreign memory never enters the pool's idle memory and counts in
// Stats.Wrapped alone. Wrap allocates one small record. If the Buffer is leaked rather than freed,
// release is never called: slices of b may still be in use.
func (p *Pool) Wrap(b []byte, release func([]byte)) Buffer {
	s := newFleetingSlab(p, nil, b[:len(b):len(b)])
	s.foreign = true
	s.release = release
	s.due = dueRelease
	p.foreign.gets.Add(1)
	return p.hand(s, len(b))
}

// letGo gives foreign memory back to where it came from.
func (s *slab) letGo() {
	release := s.release
	s.release = nil
	if release != nil {
		release(s.mem)
	}
}
