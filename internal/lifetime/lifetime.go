// Package lifetime implements the end of a context.Context: Done, Err and AfterFunc for a type that is a
// context itself, so that a request needs no separate context.
package lifetime

// State says whether a context has ended. The zero State has not. It is guarded by a
// mutex of its owner's, which is held for every method but Run.
type State struct {
	err    error
	done   chan struct{} // made by Done
	afters *Func
}

// Func is one registration of AfterFunc.
type Func struct {
	f    func()
	next *Func
}

// Funcs are what is to run when a context has ended.
type Funcs struct{ first *Func }

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
	a := &Func{f: f}
	if s.err != nil {
		go f()
		return a
	}
	a.next, s.afters = s.afters, a
	return a
}

// Stop takes back a registration, and reports whether it has prevented the function
// from running.
func (s *State) Stop(a *Func) bool {
	for p := &s.afters; *p != nil; p = &(*p).next {
		if *p == a {
			*p, a.next = a.next, nil
			return true
		}
	}
	return false
}

// End ends the context because of err, and returns what the owner is to run once it has
// unlocked its mutex. Further calls do nothing; first reports whether this is the first.
func (s *State) End(err error) (run Funcs, first bool) {
	if s.err != nil {
		return Funcs{}, false
	}
	s.err = err
	if s.done != nil {
		close(s.done)
	}
	run.first, s.afters = s.afters, nil
	return run, true
}

// Run runs the functions, each on a separate goroutine.
func (run Funcs) Run() {
	for a := run.first; a != nil; a = a.next {
		go a.f()
	}
}
