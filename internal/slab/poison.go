package slab

import "bytes"

// Freed memory that checks track is overwritten with a pattern, and has to carry it when the slab is
// next handed out or given up.

const pattern = 0xDB

var patterns = bytes.Repeat([]byte{pattern}, 4<<10) // never written to

// poison overwrites freed memory, so that a stale read is recognised and a stale write is found.
func poison(mem []byte) {
	for len(mem) > 0 {
		mem = mem[copy(mem, patterns):]
	}
}

// poisonIntact reports whether poisoned memory carries its pattern.
func poisonIntact(mem []byte) bool {
	for len(mem) > 0 {
		n := min(len(mem), len(patterns))
		if !bytes.Equal(mem[:n], patterns[:n]) {
			return false
		}
		mem = mem[n:]
	}
	return true
}

// verifyPoison reports a write to the slab since its last Free. The caller owns the slab.
func (s *Slab) verifyPoison() {
	if !s.poisoned {
		return
	}
	s.poisoned = false
	if poisonIntact(s.mem) {
		return
	}
	f := Fault{Kind: WriteAfterFree, Op: "a write", Size: len(s.mem)}
	if c := s.track.Load(); c != nil {
		f.Acquired, f.Freed = c.Acquired, c.Ended()
	}
	s.depot.config.Report(f)
}
