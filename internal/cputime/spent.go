package cputime

import "time"

// Spent is processor time: all of it, and the kernel's part. The system divides it by the state in which it finds the
// processor at each tick, so that the part is exact only over many ticks.
type Spent struct{ All, Kernel time.Duration }

// Sub returns what was spent since earlier.
func (s Spent) Sub(earlier Spent) Spent { return Spent{s.All - earlier.All, s.Kernel - earlier.Kernel} }

// Add adds more.
func (s *Spent) Add(more Spent) {
	s.All += more.All
	s.Kernel += more.Kernel
}
