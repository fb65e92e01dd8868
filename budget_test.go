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

// A budgetModel is a pool with a budget beside a list of all Acquires that were made. Its figures are bytes.
type budgetModel struct {
	t     *testing.T
	pool  *tarn.Pool
	over  uint64       // Gets that went over the budget
	inUse int64        // by held
	held  []held       // in no order
	queue []*acquiring // not done when last looked at, in order
	marks atomic.Pointer[[]tarn.Watermark]
}

// held is a buffer and what it is charged with.
type held struct {
	buffer tarn.Buffer
	charge int64
}

// acquiring is one Acquire on a goroutine of its own. The fields below done are written by that.
type acquiring struct {
	n      int
	ctx    context.Context
	cancel context.CancelFunc

	done   bool
	buffer tarn.Buffer
	err    error
}

const modelBudget, modelHigh, modelLow = 4096, 3000, 1000

// runBudget runs a program; each step ends when all goroutines wait.
func runBudget(t *testing.T, code []byte) {
	synctest.Test(t, func(t *testing.T) {
		m := &budgetModel{t: t}
		m.marks.Store(new([]tarn.Watermark))
		m.pool = newPool(t, tarn.PoolConfig{
			Classes: []int{100, 256, 1024, 3000}, Budget: modelBudget, HighWater: modelHigh, LowWater: modelLow,
			OnWatermark: func(mark tarn.Watermark, _ int64) {
				marks := append(*m.marks.Load(), mark)
				m.marks.Store(&marks)
			},
		})
		p := program{code}
		for len(p.rest) > 0 && !t.Failed() {
			m.step(&p)
			synctest.Wait()
			m.check()
		}
		for _, a := range m.queue {
			a.cancel()
		}
		synctest.Wait()
		m.check()
		for len(m.held) > 0 {
			m.free(0)
		}
		m.check()
	})
}

func (m *budgetModel) step(p *program) {
	switch p.byte() % 12 {
	case 0, 1, 2, 3:
		m.acquire(p.byte()<<(p.byte()%6), context.WithCancel)
	case 4:
		d := time.Duration(p.byte()) * time.Millisecond
		m.acquire(p.byte()<<(p.byte()%6), func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, d)
		})
	case 5:
		<-time.After(time.Duration(p.byte()) * time.Millisecond)
	case 6:
		m.cancel(p)
	case 7, 8:
		m.freeOne(p)
	case 9: // at once, so that what is freed may serve the one that is cancelled
		m.cancel(p)
		m.freeOne(p)
		m.cancel(p)
	case 10:
		m.freeOne(p)
		m.freeOne(p)
		m.cancel(p)
	case 11:
		n := p.byte() << (p.byte() % 6)
		b := m.pool.Get(n)
		charge := int64(m.pool.ClassSize(n))
		if m.inUse+charge > modelBudget && n > 0 {
			m.over++
		}
		m.hold(b, charge)
	}
}

func (m *budgetModel) acquire(n int, with func(context.Context) (context.Context, context.CancelFunc)) {
	a := &acquiring{n: n}
	a.ctx, a.cancel = with(m.t.Context())
	m.queue = append(m.queue, a)
	go func() {
		a.buffer, a.err = m.pool.Acquire(a.ctx, n)
		a.done = true
	}()
}

func (m *budgetModel) cancel(p *program) {
	if len(m.queue) > 0 {
		m.queue[p.upTo(len(m.queue)-1)].cancel()
	}
}

func (m *budgetModel) hold(b tarn.Buffer, charge int64) {
	m.held = append(m.held, held{b, charge})
	m.inUse += charge
}

func (m *budgetModel) freeOne(p *program) {
	if len(m.held) > 0 {
		m.free(p.upTo(len(m.held) - 1))
	}
}

func (m *budgetModel) free(i int) {
	h, last := m.held[i], len(m.held)-1
	m.held[i] = m.held[last]
	m.held = m.held[:last]
	m.inUse -= h.charge
	h.buffer.Free()
}

// check takes what Acquires have returned since, and compares the pool with the list.
func (m *budgetModel) check() {
	t := m.t
	var waiting []*acquiring
	for _, a := range m.queue {
		charge := int64(m.pool.ClassSize(a.n))
		switch {
		case !a.done:
			waiting = append(waiting, a)
			if a.ctx.Err() != nil {
				t.Errorf("an Acquire waits whose context has ended: %v", a.ctx.Err())
			}
			continue
		case a.err == nil:
			if a.buffer.Len() != a.n {
				t.Errorf("Acquire(%d) = %d bytes", a.n, a.buffer.Len())
			}
			if a.n > 0 && len(waiting) > 0 {
				t.Errorf("an Acquire of %d overtook %d before it", a.n, len(waiting))
			}
			m.hold(a.buffer, charge)
			if a.n > 0 && m.inUse > modelBudget {
				t.Errorf("Acquire(%d) made use %d of %d", a.n, m.inUse, modelBudget)
			}
		case errors.Is(a.err, tarn.ErrBudget):
			if charge <= modelBudget {
				t.Errorf("Acquire(%d) = %v", a.n, a.err)
			}
		case !errors.Is(a.err, context.Cause(a.ctx)):
			t.Errorf("Acquire(%d) = %v, its context's cause is %v", a.n, a.err, context.Cause(a.ctx))
		}
		if a.err != nil && !a.buffer.IsZero() {
			t.Errorf("Acquire(%d) returned a buffer and %v", a.n, a.err)
		}
		a.cancel()
	}
	m.queue = waiting
	if len(waiting) > 0 && m.inUse+int64(m.pool.ClassSize(waiting[0].n)) <= modelBudget {
		t.Errorf("an Acquire of %d waits while %d of %d are in use", waiting[0].n, m.inUse, modelBudget)
	}
	if st := m.pool.Stats(); int64(st.InUse) != m.inUse || st.Waiting != len(waiting) || st.OverBudget != m.over {
		t.Errorf("%d in use, %d waiting, %d over; want %d, %d, %d", st.InUse, st.Waiting, st.OverBudget, m.inUse, len(waiting), m.over)
	}
	m.checkMarks(*m.marks.Load())
}

// checkMarks checks that marks take turns, and that the last one holds.
func (m *budgetModel) checkMarks(marks []tarn.Watermark) {
	for i, mark := range marks {
		if want := []tarn.Watermark{tarn.AboveHigh, tarn.BelowLow}[i%2]; mark != want {
			m.t.Fatalf("mark %d is %d", i, mark)
		}
	}
	above := len(marks)%2 == 1
	if above && m.inUse <= modelLow || !above && m.inUse >= modelHigh {
		m.t.Errorf("%d bytes are in use after %d marks", m.inUse, len(marks))
	}
}

func TestBudgetModel(t *testing.T) { runPrograms(t, 100, 600, runBudget) }

func FuzzBudget(f *testing.F) { fuzzPrograms(f, 8, 300, runBudget) }
