package rpc

// signal tells whoever waits that something has happened, any number of times. It
// costs nothing while nobody waits. It is guarded by its owner's mutex.
type signal struct{ ch chan struct{} }

// next is closed the next time that tell is called.
func (s *signal) next() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) tell() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
