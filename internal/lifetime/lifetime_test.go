package lifetime

import (
	"context"
	"testing"
	"testing/synctest"
)

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestEnd: the first End counts, and Done shows it whether it is called before or after.
func TestEnd(t *testing.T) {
	var before, after State
	done := before.Done()
	if ended(done) || before.Err() != nil {
		t.Error("Err of a State that has not ended is not nil")
	}
	for _, s := range []*State{&before, &after} {
		if _, first := s.End(context.Canceled); !first {
			t.Error("the first End reports that it is not the first")
		}
		if _, first := s.End(context.DeadlineExceeded); first {
			t.Error("the second End reports that it is the first")
		}
		if s.Err() != context.Canceled {
			t.Errorf("ended with %v", s.Err())
		}
	}
	if !ended(done) || !ended(before.Done()) || !ended(after.Done()) {
		t.Error("Done is not closed")
	}
}

// TestAfterFunc: a function runs once, when the context has ended, unless it was
// stopped; stopping it afterwards reports false.
func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s State
		ran := make(chan string, 8)
		add := func(name string) *Func { return s.AfterFunc(func() { ran <- name }) }
		a, b, c := add("a"), add("b"), add("c")
		if !s.Stop(a) || s.Stop(a) {
			t.Error("a registration is taken back once")
		}
		run, _ := s.End(context.Canceled)
		if len(ran) != 0 {
			t.Error("a function runs before Run")
		}
		run.Run()
		d := add("d")
		synctest.Wait()
		got := map[string]int{}
		for len(ran) > 0 {
			got[<-ran]++
		}
		if len(got) != 3 || got["b"] != 1 || got["c"] != 1 || got["d"] != 1 {
			t.Errorf("ran: %v", got)
		}
		for _, f := range []*Func{b, c, d} {
			if s.Stop(f) {
				t.Error("Stop reports that it has prevented a function that ran")
			}
		}
	})
}
