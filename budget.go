package tarn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrBudget is matched by Acquire's error about a length that exceeds the whole budget, which no
// waiting would cure. The caller is at fault.
var ErrBudget = errors.New("tarn: more than the whole budget")

// Watermark is a mark of bytes in use.
type Watermark int

const (
	AboveHigh Watermark = iota // use rose to PoolConfig.HighWater: push back
	BelowLow                   // use fell to PoolConfig.LowWater again: go on
)

// budget keeps the bytes in use and who waits for them, first come first served.
type budget struct {
	most      int64 // 0: no bound
	high, low int64
	tell      func(Watermark, int64)

	mu        sync.Mutex
	inUse     int64
	above     bool // use is between having reached high and having fallen to low
	crossings []crossing
	over      uint64
	waiting   []*waiter
}

// waiter is one Acquire in the queue. ready is closed when its bytes have been debited.
type waiter struct {
	n     int64
	ready chan struct{}
}

// crossing is a watermark passed, to be told when the lock is released.
type crossing struct {
	mark  Watermark
	inUse int64
}

func newBudget(c PoolConfig) *budget {
	return &budget{most: c.Budget, high: c.HighWater, low: c.LowWater, tell: c.OnWatermark}
}

// debit takes n bytes without waiting, beyond the budget if need be.
func (b *budget) debit(n int64) {
	b.mu.Lock()
	defer b.unlock()
	if b.most > 0 && b.inUse+n > b.most {
		b.over++
	}
	b.move(n)
}

// credit gives n bytes back and serves the queue.
func (b *budget) credit(n int64) {
	b.mu.Lock()
	defer b.unlock()
	b.move(-n)
	b.serve()
}

// serve debits for those at the head of the queue whose turn has come.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.inUse+b.waiting[0].n <= b.most {
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.move(w.n)
		close(w.ready)
	}
}

// move changes the bytes in use and notes a mark crossed by it.
func (b *budget) move(n int64) {
	b.inUse += n
	switch {
	case b.high == 0:
	case !b.above && b.inUse >= b.high:
		b.above = true
		b.crossings = append(b.crossings, crossing{AboveHigh, b.inUse})
	case b.above && b.inUse <= b.low:
		b.above = false
		b.crossings = append(b.crossings, crossing{BelowLow, b.inUse})
	}
}

// unlock releases the lock and tells of the marks crossed under it.
func (b *budget) unlock() {
	crossed := b.crossings
	b.crossings = nil
	b.mu.Unlock()
	for _, c := range crossed {
		b.tell(c.mark, c.inUse)
	}
}

// acquire takes n bytes, waiting for its turn until ctx is done.
func (b *budget) acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.inUse+n <= b.most {
		b.move(n)
		b.unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		if b.leave(w) {
			return fmt.Errorf("tarn: waiting for %d bytes of budget: %w", n, context.Cause(ctx))
		}
		return nil // its turn came first
	}
}

// leave takes a waiter out of the queue; false if it has been served. Those behind it may fit.
func (b *budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.serve()
	return true
}

// Acquire is Get within the budget of the pool's config: it waits, first come first served, until
// the slab fits, or returns the cause of ctx's end, also if it has ended before. Without a budget it
// does not wait. An n whose slab exceeds the whole budget fails at once with ErrBudget, a negative n
// panics, and with an error there is nothing to free (rule 4).
func (p *Pool) Acquire(ctx context.Context, n int) (Buffer, error) {
	if n <= 0 {
		return empty(n), nil
	}
	if ctx.Err() != nil {
		return Buffer{}, fmt.Errorf("tarn: Acquire of %d bytes: %w", n, context.Cause(ctx))
	}
	if p.config.Budget == 0 {
		return p.Get(n), nil
	}
	cost := int64(p.ClassSize(n))
	if cost > p.config.Budget {
		return Buffer{}, fmt.Errorf("%w: a slab for %d bytes takes %d of %d", ErrBudget, n, cost, p.config.Budget)
	}
	if err := p.budget.acquire(ctx, cost); err != nil {
		return Buffer{}, err
	}
	s := p.take(n)
	s.charge = cost
	return p.hand(s, n), nil
}

// take returns an idle slab, or a new one, that holds n ≥ 1 bytes.
func (p *Pool) take(n int) *slab {
	l := p.ladder.Load()
	if !l.within(n) {
		return p.makeOversize(n)
	}
	c := l.find(n).class
	if s, _ := c.idle.Get().(*slab); s != nil {
		return s
	}
	return p.makeSlab(c)
}
