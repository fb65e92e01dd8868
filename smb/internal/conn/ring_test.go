package conn

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestRingModel compares a ring with a map, over requests most of which are answered in order and some only
// long after the ring has wrapped.
func TestRingModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r ring
	model := map[uint64]*Call{}
	var order []uint64
	next := uint64(0)
	for range 20_000 {
		switch {
		case len(order) < 40 || rng.IntN(2) == 0 && len(order) < 500:
			cl := &Call{request: request{mid: next, charge: 1 + rng.IntN(16)}}
			next += uint64(cl.charge)
			if err := r.add(cl); err != nil {
				t.Fatal(err)
			}
			model[cl.mid] = cl
			order = append(order, cl.mid)
		default:
			at := 0
			if rng.IntN(10) == 0 {
				at = rng.IntN(len(order))
			} else if len(order) > 8 {
				at = 8 // the first eight stay unanswered
			}
			mid := order[at]
			order = append(order[:at], order[at+1:]...)
			if got := r.find(mid); got != model[mid] {
				t.Fatalf("%d: %v", mid, got)
			}
			r.remove(model[mid])
			delete(model, mid)
			if r.find(mid) != nil {
				t.Fatalf("%d is found after its removal", mid)
			}
		}
		if r.count != len(model) {
			t.Fatalf("%d calls, want %d", r.count, len(model))
		}
	}
	visited := 0
	r.clear(func(cl *Call) {
		if model[cl.mid] != cl {
			t.Errorf("%d was not registered", cl.mid)
		}
		visited++
	})
	if visited != len(model) || !r.empty() {
		t.Errorf("%d calls visited, want %d", visited, len(model))
	}
}

// Nothing is registered once the connection has ended.
func TestRingAfterFailure(t *testing.T) {
	r := ring{err: ErrLost}
	if err := r.add(new(Call)); !errors.Is(err, ErrLost) || !r.empty() {
		t.Error(err)
	}
}

// The last rememberedIDs cancelled requests are remembered.
func TestCancelledIDs(t *testing.T) {
	var c cancelledIDs
	if c.has(0) {
		t.Error("an id that was never added")
	}
	for mid := range uint64(3 * rememberedIDs) {
		c.add(mid)
	}
	for mid := range uint64(3 * rememberedIDs) {
		if got, want := c.has(mid), mid >= 2*rememberedIDs; got != want {
			t.Errorf("%d: %v", mid, got)
		}
	}
}
