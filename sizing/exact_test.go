package sizing

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn"
)

// Waste counts the bytes that were really asked for, not the upper edges of the buckets: for a good
// ladder the two differ by half.
func TestWasteIsExactWithinABucket(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "exact", Classes: []int{66000}})
	if err != nil {
		t.Fatal(err)
	}
	const n, asked = 64 * tarn.RecordEvery, 65600 // in the bucket of 65537 to 67584
	for range n {
		pool.Get(asked).Free()
	}
	h := pool.Histogram()
	u, err := Measure(h, []int{67584})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 - float64(asked)/67584; u.Share() < want-1e-9 || u.Share() > want+1e-9 {
		t.Errorf("waste %.5f, want %.5f", u.Share(), want)
	}
	plan, err := NewPlan(h, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Waste(1); got != u.Waste() {
		t.Errorf("the plan wastes %d, its ladder %d", got, u.Waste())
	}
}

func TestMoreBytesThanTheSizeAllowsAreMalformed(t *testing.T) {
	_, err := Measure(Histogram{Sizes: []SizeCount{{Size: 10, Count: 2, Bytes: 21}}}, []int{16})
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestSinceSubtractsBytes(t *testing.T) {
	before := Histogram{Sizes: []SizeCount{{Size: 100, Count: 2, Bytes: 150}}}
	now := Histogram{Sizes: []SizeCount{{Size: 100, Count: 5, Bytes: 400}}}
	if got := Since(now, before).Sizes[0]; got != (SizeCount{Size: 100, Count: 3, Bytes: 250}) {
		t.Errorf("got %+v", got)
	}
}
