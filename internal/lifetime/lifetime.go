// Package lifetime implements the end of a context.Context: Done, Err and AfterFunc for a type that is a
// context itself, so that a request needs no separate context.
package lifetime

// State says whether a context has ended. The zero State has not. It is guarded by a
// mutex of its owner's, which is held for every method but Run.
type State struct {
	err    error
	done   chan struct{} // made by Done
	afters Funcs
}

// Func is one registration of AfterFunc.
type Func struct{ f func() }

// Funcs are what is to run when a context has ended.
type Funcs []*Func

// Err returns why the context has ended; nil: it has not.
func (s *State) Err() error { return s.err }

// Done returns a channel that is closed when the context ends.
func (s *State) Done() <-chan struct{} {
	if s.done == nil {
		s.done = make(chan struct{})
		if s.err != nil {
			close(s.done)
		}
	}
	return s.done
}

// AfterFunc runs f, on a separate goroutine, when the context has ended; at once if it has already. It
// returns the argument for Stop. With it a context can be the parent of others without a goroutine for each;
// see context.AfterFunc.
func (s *State) AfterFunc(f func()) *Func {
	a := &Func{f}
	if s.err != nil {
		go f()
		return a
	}
	s.afters = append(s.afters, a)
	return a
}

// Stop takes back a registration, and reports whether it has prevented the function
// from running.
func (s *State) Stop(a *Func) bool {
	for i, x := range s.afters {
		if x == a {
			last := len(s.afters) - 1
			s.afters[i] = s.afters[last]
			s.afters[last] = nil
			s.afters = s.afters[:last]
			return true
		}
	}
	return false
}

// End ends the context because of err, and returns what the owner is to run once it has
// unlocked its mutex. Further calls do nothing; first reports whether this is the first.
func (s *State) End(err error) (run Funcs, first bool) {
	if s.err != nil {
		return nil, false
	}
	s.err = err
	if s.done != nil {
		close(s.done)
	}
	run, s.afters = s.afters, nil
	return run, true
}

// Run runs the functions, each on a separate goroutine.
func (run Funcs) Run() {
	for _, a := range run {
		go a.f()
	}
}
