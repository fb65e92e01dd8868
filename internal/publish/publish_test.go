package publish

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A reader sees only complete words that were stored, and in the end the last one.
func TestReadersSeeWholeWords(t *testing.T) {
	const rounds = 100_000
	const last = uint64(rounds)<<32 | rounds
	w := new(uint64) // allocated words are aligned on every platform
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for v := uint64(0); v != last; {
				if v = atomic.LoadUint64(w); v>>32 != v&(1<<32-1) {
					t.Errorf("saw half of a word: %#x", v)
					return
				}
			}
		})
	}
	for i := uint64(1); i <= rounds; i++ {
		Store(w, i<<32|i)
	}
	wg.Wait()
}
