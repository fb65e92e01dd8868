package tarn_test

import (
	"testing"

	"github.com/tarn-go/tarn"
)

// A panic of OnWatermark in Get or Acquire, which return nothing then, leaves nothing charged.
func TestPanicOfOnWatermarkTakesNothing(t *testing.T) {
	for name, get := range map[string]func(*tarn.Pool){
		"Get":     func(p *tarn.Pool) { p.Get(1024).Free() },
		"Acquire": func(p *tarn.Pool) { mustAcquire(t, p, 1024).Free() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Budget: 1024, HighWater: 1024, OnWatermark: func(mark tarn.Watermark, _ int64) {
				if mark == tarn.AboveHigh {
					panic("mine")
				}
			}})
			for range 2 {
				if caught(func() { get(p) }) != "mine" {
					t.Fatal("the panic did not reach the caller")
				}
			}
			mustAcquire(t, p, 512).Free() // waits if a charge has stayed
		})
	}
}

// A panic of Observe, in Get or in the last Free, costs neither budget nor the clearing of the memory: the slab is not
// used again before the garbage collector has found it, and then it is cleared.
func TestPanicOfObserveLosesNothing(t *testing.T) {
	for name, at := range map[string]func(tarn.Loan) bool{
		"Get":  func(l tarn.Loan) bool { return l.Size > 0 },
		"Free": func(l tarn.Loan) bool { return l.Size == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			fails := false
			p := newPool(t, tarn.PoolConfig{Budget: 1024, Retain: 1024, Classes: []int{1024}, Zero: tarn.ZeroOnFree, Observe: func(l tarn.Loan) {
				if fails && at(l) {
					panic("mine")
				}
			}})
			use := func() {
				b := mustAcquire(t, p, 1024)
				defer b.Free()
				for i, c := range b.Bytes() {
					if c != 0 {
						t.Fatalf("byte %d is %d", i, c)
					}
					b.Bytes()[i] = 1
				}
			}
			use()
			fails = true
			if caught(use) != "mine" {
				t.Fatal("the panic did not reach the caller")
			}
			fails = false
			use()
			collect(t, "found", func() bool { // the bound on what is kept has room for this slab again
				hits := p.Stats().Hits
				use()
				return p.Stats().Hits > hits
			})
		})
	}
}
