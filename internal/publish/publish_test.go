package publish

import (
	"sync"
	"sync/atomic"
	"testing"
)

// What was written before the store is there for whoever sees the stored word.
func TestReleaseOrders(t *testing.T) {
	const rounds = 100_000
	var w atomic.Uint64
	var payload [2]atomic.Uint64
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for last := uint64(0); last < rounds; {
			v := w.Load()
			if p := payload[v&1].Load(); p < v {
				t.Errorf("saw word %d before its payload (%d)", v, p)
				return
			}
			last = v
		}
	}()
	for i := uint64(1); i <= rounds; i++ {
		payload[i&1].Store(i)
		Release(&w, i)
	}
	wg.Wait()
}
