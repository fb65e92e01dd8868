package rpc

// signal wakes all goroutines that wait for an event, any number of times. It allocates only while one waits.
// It is guarded by its owner's mutex.
type signal struct{ ch chan struct{} }

// next is closed by the next call of notify.
func (s *signal) next() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) notify() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
