// Package tarntest is for the tests of programs that use tarn: a pool that fails the test, with
// stacks, when anything is still out at its end or was misused.
package tarntest

import (
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

// NewPool returns a pool for one test, with every reference watched (tarn.CheckAll). When the test
// and its cleanups registered later are over, the test fails for each buffer that is still out and
// for each misuse that was reported, naming the stacks. What goroutines of the test still hold must
// be freed before that; wait for them.
func NewPool(t testing.TB) *tarn.Pool {
	t.Helper()
	return newPool(t, tarn.CheckAll)
}

// NewGuardedPool is NewPool with tarn.CheckGuard: reading a slice kept beyond Free faults, too.
func NewGuardedPool(t testing.TB) *tarn.Pool {
	t.Helper()
	return newPool(t, tarn.CheckGuard)
}

func newPool(t testing.TB, level tarn.CheckLevel) *tarn.Pool {
	t.Helper()
	var found reports
	p, err := tarn.NewPool(tarn.PoolConfig{Name: t.Name(), Check: level, Report: found.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Helper()
		for _, o := range p.Outstanding() {
			t.Errorf("tarntest: never freed: %v", o)
		}
		for _, m := range found.take() {
			t.Errorf("tarntest: %v", &m)
		}
	})
	return p
}

// reports collects what a pool tells.
type reports struct {
	mu   sync.Mutex
	list []tarn.Misuse
}

func (r *reports) add(m tarn.Misuse) {
	if m.Kind == tarn.Unguarded {
		return // the test is watched less closely, which is no fault of it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, m)
}

func (r *reports) take() []tarn.Misuse {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}
