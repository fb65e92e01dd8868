package rpc

import (
	"math/rand/v2"
	"testing"
)

// TestWebCallsLeaveInAnyOrder: those that have not left are the calls that Stop ends.
func TestWebCallsLeaveInAnyOrder(t *testing.T) {
	s := NewServer()
	rnd := rand.New(rand.NewPCG(1, 2))
	in := map[*webCall]bool{}
	for range 1000 {
		if rnd.IntN(2) == 0 {
			c := &webCall{srv: s}
			if !s.enter(c) {
				t.Fatal("refused")
			}
			in[c] = true
		} else {
			for c := range in { // any
				s.leave(c)
				delete(in, c)
				break
			}
		}
		if len(s.calls) != len(in) {
			t.Fatalf("%d calls, want %d", len(s.calls), len(in))
		}
		for i, c := range s.calls {
			if !in[c] || int(c.place) != i {
				t.Fatalf("the call at %d has left, or its place is %d", i, c.place)
			}
		}
	}
}
