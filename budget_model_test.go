package tarn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

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
