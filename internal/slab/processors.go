package slab

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// maxSpins is how often a goroutine of onProcessors looks whether the others run: about a millisecond at most.
const maxSpins = 1 << 20

// onProcessors calls f in as many goroutines as there are processors, and returns when all calls have returned. Each
// goroutine waits, without giving its processor away, until the others run, so that no two of them share one. It waits
// for a bounded time: on a busy machine some processors may be left out.
func onProcessors(f func()) {
	n := int32(runtime.GOMAXPROCS(0))
	var running atomic.Int32
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			running.Add(1)
			for i := 0; i < maxSpins && running.Load() < n; i++ {
			}
			f()
		})
	}
	wg.Wait()
}
