package hint

import "testing"

func TestGoroutineAllocatesNothing(t *testing.T) {
	var sum uint32
	if n := testing.AllocsPerRun(100, func() { sum += Goroutine() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Goroutines that exist at the same time have different stacks, so hints must differ somewhere.
func TestGoroutineSpreads(t *testing.T) {
	const n = 64
	hints, done := make(chan uint32), make(chan struct{})
	for range n {
		go func() { hints <- Goroutine(); <-done }()
	}
	seen := map[uint32]bool{}
	for range n {
		seen[<-hints] = true
	}
	close(done)
	if len(seen) < n/4 {
		t.Errorf("%d goroutines have only %d hints", n, len(seen))
	}
}
