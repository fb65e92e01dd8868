package tarn_test

import (
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
)

// The fast path allocates nothing in steady state, with counters, recording and stale
// checks on.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector drops items of every sync.Pool at random: only that nothing breaks is tested")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	budgeted := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Budget: 1 << 20, Zero: tarn.ZeroOnGet})
	arena := tarn.NewArena(p, 64<<10)
	defer arena.Free()
	for name, f := range map[string]func(){
		"Get, Free": func() { p.Get(4096).Free() },
		"Get, Ref, Slice, Split, Free": func() {
			b := p.Get(4096)
			r, s := b.Ref(), b.Slice(10, 20)
			head, tail := b.Split(100)
			r.Free()
			s.Free()
			head, _ = head.Join(tail)
			head.Free()
		},
		"Get, Grow, Free": func() {
			b, _ := p.Get(4000).GrowTail(96)
			b.Narrow(10, 100).Free()
		},
		"Acquire, Free": func() {
			b, _ := budgeted.Acquire(t.Context(), 4096)
			b.Free()
		},
		"Arena.Get, Free":    func() { arena.Get(100).Free() },
		"large Arena pieces": func() { arena.Get(16 << 10).Free() },
	} {
		for range 1000 {
			f()
		}
		if n := testing.AllocsPerRun(2000, f); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
