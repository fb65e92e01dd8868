package rpc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
		n := 0
		for p := range s.calls {
			for i, c := range s.calls[p].calls {
				if !in[c] || int(c.place) != i || int(c.part) != p {
					t.Fatalf("the call at %d, %d has left, or its place is %d, %d", p, i, c.part, c.place)
				}
				n++
			}
		}
		if n != len(in) {
			t.Fatalf("%d calls, want %d", n, len(in))
		}
	}
}

// TestWebCallsWhileStopping: a call that enters while the server stops is refused, or ended and waited for.
func TestWebCallsWhileStopping(t *testing.T) {
	for range 100 {
		s := NewServer()
		begin := make(chan struct{})
		var callers sync.WaitGroup
		var running atomic.Int32
		for range 8 {
			callers.Go(func() {
				<-begin
				for {
					c := &webCall{srv: s}
					if !s.enter(c) {
						return
					}
					running.Add(1)
					running.Add(-1)
					s.leave(c)
				}
			})
		}
		close(begin)
		s.GracefulStop()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d calls are running", n)
		}
		callers.Wait()
	}
}
