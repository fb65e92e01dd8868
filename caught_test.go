package tarn_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn"
)

// freeOrder is the order in which references are freed.
type freeOrder string

const (
	unsplit   freeOrder = "last made, first freed, none split"
	lastFirst freeOrder = "last made, first freed"
	anyOrder  freeOrder = "any order"
)

// wrongUses makes random references to a slab, frees some of them while others live, uses one of those
// once more, and returns how many of so many wrong uses panicked at once. It begins anew each time, as
// a wrong use that is not caught leaves the slab one reference short.
func wrongUses(get func(int) tarn.Buffer, anew func(), order freeOrder, uses int) (found int) {
	r := rand.New(rand.NewPCG(1, 1))
	kinds := 3
	if order == unsplit {
		kinds = 2
	}
	for range uses {
		anew()
		live := []tarn.Buffer{get(100)}
		for range 1 + r.IntN(6) {
			i := r.IntN(len(live))
			switch r.IntN(kinds) {
			case 0:
				live = append(live, live[i].Ref())
			case 1:
				live = append(live, live[i].Slice(0, live[i].Len()))
			case 2:
				head, tail := live[i].Split(live[i].Len() / 2)
				live[i] = tail
				live = append(live, head)
			}
		}
		var freed []tarn.Buffer
		for range 1 + r.IntN(len(live)-1) {
			i := len(live) - 1 // as nested calls do
			if order == anyOrder {
				i = r.IntN(len(live))
			}
			live[i].Free()
			freed = append(freed, live[i]) //tarn:allow use the wrong use of it is what is tried
			live = append(live[:i], live[i+1:]...)
		}
		b := freed[r.IntN(len(freed))]
		use := []func(){b.Free, func() { b.Bytes() }, func() { b.Ref() }, func() { b.Unique() }}[r.IntN(4)]
		if caught(use) != nil {
			found++
		}
		for _, b := range live { // a wrong use may have taken away the weight of some
			caught(b.Free)
		}
	}
	return found
}

// The share of wrong uses that are caught at once while others hold the same slab. Those of a slab
// that no reference holds are all caught, at every level. The figures are quoted in doc.go.
func TestShareOfWrongUsesCaught(t *testing.T) {
	uses := 10_000
	if raceEnabled || testing.Short() { // one goroutine, and the same first uses
		uses = 2000
	}
	for _, c := range []struct {
		level       tarn.CheckLevel
		order       freeOrder
		pool, arena int // at least so many of 100
	}{
		{tarn.CheckOff, unsplit, 100, 100}, {tarn.CheckSampled, unsplit, 100, 100},
		{tarn.CheckOff, lastFirst, 78, 98}, {tarn.CheckOff, anyOrder, 27, 14},
		{tarn.CheckSampled, lastFirst, 78, 98}, {tarn.CheckSampled, anyOrder, 27, 14},
		{tarn.CheckAll, lastFirst, 100, 100}, {tarn.CheckAll, anyOrder, 100, 100},
		{tarn.CheckGuard, lastFirst, 100, 100}, {tarn.CheckGuard, anyOrder, 100, 100},
	} {
		p := newPool(t, tarn.PoolConfig{Check: c.level, Report: func(tarn.Misuse) {}})
		a := tarn.NewArena(p, 64<<10)
		pool := wrongUses(p.Get, func() {}, c.order, uses)
		arena := wrongUses(a.Get, a.Free, c.order, uses)
		a.Free()
		t.Logf("%v, %s: %.1f %% of a pool's, %.1f %% of an arena's", c.level, c.order, 100*float64(pool)/float64(uses), 100*float64(arena)/float64(uses))
		if pool < c.pool*uses/100 || arena < c.arena*uses/100 {
			t.Errorf("%v, %s: %d and %d of %d caught", c.level, c.order, pool, arena, uses)
		}
	}
}
