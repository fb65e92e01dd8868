package tarn

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarn-go/tarn/internal/budget"
)

// ErrBudget is matched by Acquire's error about a length whose slab exceeds the whole budget, so that
// waiting is useless. Ask for less, or raise PoolConfig.Budget.
var ErrBudget = errors.New("tarn: more than the whole budget")

// Watermark is a mark of bytes in use that was crossed.
type Watermark int

const (
	AboveHigh = Watermark(budget.AboveHigh) // use rose to PoolConfig.HighWater: push back
	BelowLow  = Watermark(budget.BelowLow)  // use fell to PoolConfig.LowWater again: go on
)

func newBudget(c PoolConfig) *budget.Budget {
	return budget.New(budget.Config{
		Max: c.Budget, High: c.HighWater, Low: c.LowWater,
		Crossed: func(mark budget.Crossing, inUse int64) { c.OnWatermark(Watermark(mark), inUse) },
	})
}

// Acquire is Get within the budget of the pool's config: it waits, first come first served, until
// the slab fits, or returns the cause of ctx's end, also if it has ended before. Without a budget it
// does not wait. An n whose slab exceeds the whole budget fails at once with ErrBudget, a negative n
// panics, and with an error there is nothing to free (rule 4).
func (p *Pool) Acquire(ctx context.Context, n int) (Buffer, error) {
	if n <= 0 {
		return p.Get(n), nil
	}
	if ctx.Err() != nil {
		return Buffer{}, fmt.Errorf("tarn: Acquire of %d bytes: %w", n, context.Cause(ctx))
	}
	if p.config.Budget == 0 {
		return p.Get(n), nil
	}
	charge := int64(p.ClassSize(n))
	if charge > p.config.Budget {
		return Buffer{}, fmt.Errorf("%w: a slab for %d bytes takes %d of %d", ErrBudget, n, charge, p.config.Budget)
	}
	if err := p.budget.Acquire(ctx, charge); err != nil {
		return Buffer{}, fmt.Errorf("tarn: waiting for %d bytes of budget: %w", charge, err)
	}
	s, key := p.depot.GetCharged(n, charge)
	return Buffer{s, key, 0, n}, nil
}
