package slab

import (
	"runtime"
	"weak"
)

// sentinel is garbage from the start: its finalizer runs once in each garbage collection.
type sentinel struct{ depot weak.Pointer[Depot] }

// countCycles lets d count garbage collections until d itself is collected.
func countCycles(d *Depot) {
	runtime.SetFinalizer(&sentinel{weak.Make(d)}, (*sentinel).tick)
}

func (s *sentinel) tick() {
	d := s.depot.Value()
	if d == nil {
		return
	}
	d.cycle.Add(1)
	runtime.SetFinalizer(s, (*sentinel).tick)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.classes {
		c.age()
	}
}
