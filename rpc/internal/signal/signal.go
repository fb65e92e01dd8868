// Package signal has an event that wakes all goroutines that wait for it.
package signal

// Signal wakes all goroutines that wait for an event, any number of times. It allocates only while one waits.
// It is guarded by its owner's mutex. The zero Signal is ready.
type Signal struct{ ch chan struct{} }

// Next is closed by the next call of Notify.
func (s *Signal) Next() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Notify wakes the goroutines that wait for Next.
func (s *Signal) Notify() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
