package tarn

import (
	"runtime"
	"weak"
)

// sentinel is garbage from the start: its finalizer runs once in each garbage collection.
type sentinel struct{ pool weak.Pointer[Pool] }

// countCycles lets p count garbage collections until p itself is collected.
func countCycles(p *Pool) {
	runtime.SetFinalizer(&sentinel{weak.Make(p)}, (*sentinel).tick)
}

func (s *sentinel) tick() {
	p := s.pool.Value()
	if p == nil {
		return
	}
	p.cycle.Add(1)
	runtime.SetFinalizer(s, (*sentinel).tick)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.classes {
		c.age()
	}
}
