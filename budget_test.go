package tarn_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

func TestAcquireWithoutBudget(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{})
	b, err := p.Acquire(t.Context(), 100)
	if err != nil || b.Len() != 100 {
		t.Fatalf("Acquire = %d bytes, %v", b.Len(), err)
	}
	b.Free()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := p.Acquire(ctx, 100); !errors.Is(err, context.Canceled) || !b.IsZero() {
		t.Errorf("Acquire with a context that has ended = %v, %v", b, err)
	}
}

func TestAcquireBeyondTheWholeBudget(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Budget: 1024})
	for _, n := range []int{1025, 1 << 30} {
		if b, err := p.Acquire(t.Context(), n); !errors.Is(err, tarn.ErrBudget) || !b.IsZero() {
			t.Errorf("Acquire(%d) = %v, %v", n, b, err)
		}
	}
	if b, err := p.Acquire(t.Context(), 0); err != nil || !b.IsZero() {
		t.Errorf("Acquire(0) = %v, %v", b, err)
	}
	if caught(func() { p.Acquire(t.Context(), -1) }) == nil {
		t.Error("Acquire(-1) did not panic")
	}
}

// Acquires that wait are served in the order in which they came; small ones do not starve a large one.
func TestAcquireIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Budget: 1024, Classes: []int{256, 1024}})
		first := mustAcquire(t, p, 256)
		order := make(chan int, 3)
		for i, n := range []int{1024, 256, 256} {
			go func() {
				b := mustAcquire(t, p, n)
				order <- i
				b.Free()
			}()
			synctest.Wait() // it is in the queue, or was served out of order
		}
		if got := p.Stats().Waiting; got != 3 {
			t.Errorf("%d wait; small ones overtook the large one", got)
		}
		first.Free()
		if got := <-order; got != 0 {
			t.Errorf("number %d was served before the one that came first", got)
		}
		<-order
		<-order
		synctest.Wait()
		if st := p.Stats(); st.Waiting != 0 || st.InUse != 0 || st.OverBudget != 0 {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

func mustAcquire(t *testing.T, p *tarn.Pool, n int) tarn.Buffer {
	b, err := p.Acquire(t.Context(), n)
	if err != nil {
		t.Error(err)
	}
	return b
}

func TestAcquireHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Budget: 1024, Classes: []int{512, 1024}})
		held := mustAcquire(t, p, 512)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		served := make(chan tarn.Buffer)
		go func() {
			synctest.Wait()
			served <- mustAcquire(t, p, 512) // fits, but waits behind the large one
		}()
		start := time.Now()
		b, err := p.Acquire(ctx, 1024)
		if !errors.Is(err, context.DeadlineExceeded) || !b.IsZero() || time.Since(start) != time.Second {
			t.Errorf("Acquire = %v, %v after %v", b, err, time.Since(start))
		}
		(<-served).Free() // an Acquire that gives up does not hold back those behind it
		held.Free()
	})
}

func TestGetGoesOverBudgetAndCountsIt(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Budget: 1024, Classes: []int{1024}})
	a, b, c := p.Get(1), p.Get(1), p.Get(5000)
	if st := p.Stats(); st.OverBudget != 2 {
		t.Errorf("OverBudget = %d", st.OverBudget)
	}
	a.Free()
	b.Free()
	c.Free()
	mustAcquire(t, p, 1).Free() // all of the budget is back
}

func TestBudgetIsNeverExceededByAcquire(t *testing.T) {
	const budget = 64 << 10
	p := newPool(t, tarn.PoolConfig{Budget: budget})
	var inUse, peak atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%5 == 0 {
					go cancel() // often while waiting
				}
				b, err := p.Acquire(ctx, 1+i*100)
				if err == nil {
					now := inUse.Add(int64(b.Pinned()))
					for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
					}
					inUse.Add(-int64(b.Pinned()))
					b.Free()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if peak.Load() > budget {
		t.Errorf("%d bytes were acquired at once; the budget is %d", peak.Load(), budget)
	}
	if st := p.Stats(); st.InUse != 0 || st.Waiting != 0 || st.OverBudget != 0 {
		t.Errorf("afterwards: %+v", st)
	}
	whole := mustAcquire(t, p, budget)
	whole.Free()
}

func TestWatermarks(t *testing.T) {
	var marks []tarn.Watermark
	p := newPool(t, tarn.PoolConfig{
		Classes: []int{1024}, HighWater: 3072, LowWater: 1024,
		OnWatermark: func(w tarn.Watermark, inUse int64) { marks = append(marks, w) },
	})
	var held []tarn.Buffer
	step := func(want ...tarn.Watermark) {
		t.Helper()
		if len(marks) != len(want) {
			t.Fatalf("OnWatermark was called with %v, want %v", marks, want)
		}
	}
	for range 2 {
		held = append(held, p.Get(1))
	}
	step()
	held = append(held, p.Get(1), p.Get(1))
	step(tarn.AboveHigh) // once, not again while above
	held[3].Free()
	held[2].Free()
	step(tarn.AboveHigh) // between the marks no report is made
	held = append(held[:2], p.Get(1))
	step(tarn.AboveHigh)
	held[2].Free()
	held[1].Free()
	step(tarn.AboveHigh, tarn.BelowLow)
	held[0].Free()
	step(tarn.AboveHigh, tarn.BelowLow)
}

// A leaked buffer gives its bytes back to the budget once the garbage collector has found it.
func TestLeakedBuffersLeaveTheBudget(t *testing.T) {
	for _, check := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll} {
		p := newPool(t, tarn.PoolConfig{Budget: 1 << 20, Check: check, Report: func(tarn.Misuse) {}})
		func() { p.Get(1 << 20) }() //tarn:owned it is leaked, which is what the test is about
		collect(t, "free again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			b, err := p.Acquire(ctx, 1<<20)
			b.Free()
			return err == nil
		})
	}
}
