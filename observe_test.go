package tarn_test

import (
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

// Observe is called once for the beginning and once for the end of each loan, with one number.
func TestObserve(t *testing.T) {
	var mu sync.Mutex
	begun, ended := map[uint64]int{}, map[uint64]bool{}
	p := newPool(t, tarn.PoolConfig{Observe: func(l tarn.Loan) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case l.Size > 0 && begun[l.Number] == 0:
			begun[l.Number] = l.Size
		case l.Size == 0 && begun[l.Number] > 0 && !ended[l.Number]:
			ended[l.Number] = true
		default:
			t.Errorf("Observe was called with %+v out of order", l)
		}
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				head, tail := p.Get(1 + i*100).Split(1)
				tail.Free()
				head.Free()
			}
		})
	}
	wg.Wait()
	p.Wrap([]byte("foreign"), nil).Free()
	p.Get(0).Free()
	if len(begun) != 4000 || len(ended) != 4000 || begun[1] == 0 || begun[4000] == 0 {
		t.Errorf("%d loans begun, %d ended", len(begun), len(ended))
	}
}
