// Package budget bounds the bytes that are in use at once: a queue of callers that wait for bytes, and
// marks that are reported when use crosses them.
package budget

import (
	"context"
	"slices"
	"sync"
)

// Crossing says which mark was crossed.
type Crossing int

const (
	AboveHigh Crossing = iota // use rose to Config.High
	BelowLow                  // use fell to Config.Low after that
)

// Config configures a Budget. Figures are bytes.
type Config struct {
	Max       int64                            // 0: no bound
	High, Low int64                            // High 0: no marks
	Crossed   func(mark Crossing, inUse int64) // called with no lock held, one call at a time and in order
}

// Budget counts the bytes in use and queues callers that wait for them, first come first served. It is
// safe for concurrent use.
type Budget struct {
	config Config

	mu        sync.Mutex
	inUse     int64
	above     bool       // use has reached High and not fallen to Low since
	crossings []crossing // not reported yet
	reporting bool       // a goroutine is in Crossed
	over      uint64
	waiting   []*waiter
}

// waiter is one Acquire in the queue. ready is closed when its bytes have been charged.
type waiter struct {
	n     int64
	ready chan struct{}
}

// crossing is a mark crossed, to be reported once the lock is released.
type crossing struct {
	mark  Crossing
	inUse int64
}

// New returns a Budget with nothing in use.
func New(c Config) *Budget { return &Budget{config: c} }

// Charge takes n bytes without waiting, beyond the budget if need be. If Crossed panics, it has taken nothing.
func (b *Budget) Charge(n int64) {
	b.mu.Lock()
	if b.config.Max > 0 && b.inUse+n > b.config.Max {
		b.over++
	}
	b.take(n)
}

// take charges n bytes and releases the lock. If Crossed panics, it charges nothing: the caller does not learn that
// it has the bytes.
func (b *Budget) take(n int64) {
	b.move(n)
	taken := false
	defer func() {
		if !taken {
			b.mu.Lock()
			b.move(-n) // a mark that this crosses is reported by the next call
			b.serve()
			b.mu.Unlock()
		}
	}()
	b.unlock()
	taken = true
}

// Refund gives n bytes back and serves the queue.
func (b *Budget) Refund(n int64) {
	b.mu.Lock()
	defer b.unlock()
	b.move(-n)
	b.serve()
}

// serve charges for the waiters at the head of the queue whose bytes are free now.
func (b *Budget) serve() {
	for len(b.waiting) > 0 && b.inUse+b.waiting[0].n <= b.config.Max {
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.move(w.n)
		close(w.ready)
	}
}

// move changes the bytes in use and notes a mark crossed by it.
func (b *Budget) move(n int64) {
	b.inUse += n
	switch {
	case b.config.High == 0:
	case !b.above && b.inUse >= b.config.High:
		b.above = true
		b.crossings = append(b.crossings, crossing{AboveHigh, b.inUse})
	case b.above && b.inUse <= b.config.Low:
		b.above = false
		b.crossings = append(b.crossings, crossing{BelowLow, b.inUse})
	}
}

// unlock releases the lock, and reports the marks crossed under it unless another goroutine, or a
// caller further up this one, is reporting already: that one goes on with these, so that reports come
// one at a time and in order.
func (b *Budget) unlock() {
	if b.reporting {
		b.mu.Unlock()
		return
	}
	b.reporting = true
	defer func() {
		b.reporting = false
		b.mu.Unlock()
	}()
	for len(b.crossings) > 0 {
		c := b.crossings[0]
		b.crossings = b.crossings[1:]
		b.report(c)
	}
	b.crossings = nil
}

// report calls Crossed without the lock, and holds it again when that returns or panics.
func (b *Budget) report(c crossing) {
	b.mu.Unlock()
	defer b.mu.Lock()
	b.config.Crossed(c.mark, c.inUse)
}

// Acquire takes n bytes, at most Max, and waits for them until ctx is done; then it returns the
// cause and has taken nothing. So has it if Crossed panics.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.inUse+n <= b.config.Max {
		b.take(n)
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
			return context.Cause(ctx)
		}
		return nil // its bytes were charged first
	}
}

// leave takes a waiter out of the queue; false if it has been served. Those behind it may fit.
func (b *Budget) leave(w *waiter) bool {
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

// Pressure returns how many Charges went beyond Max, and how many Acquires wait now.
func (b *Budget) Pressure() (over uint64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over, len(b.waiting)
}
