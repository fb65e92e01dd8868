package message

import "sync/atomic"

// maxAllowance bounds what one connection may be trusted with, in bytes.
const maxAllowance = 16 << 20

// Allowance is how far a peer's word about the length of large messages is taken.
// It starts at nothing, grows by every large message that came whole, up to
// maxAllowance, and is used up while messages taken on trust are under way. So a
// peer makes this side hold at most what it has once delivered, and never more
// than maxAllowance, on its word alone. The zero Allowance is ready and safe for
// concurrent use.
type Allowance struct{ free, earned atomic.Int64 }

// take uses n of the allowance, if there is so much.
func (c *Allowance) take(n int) bool {
	if c == nil {
		return false
	}
	for {
		free := c.free.Load()
		if free < int64(n) {
			return false
		}
		if c.free.CompareAndSwap(free, free-int64(n)) {
			return true
		}
	}
}

// give puts back what take used.
func (c *Allowance) give(n int) {
	if c != nil && n > 0 {
		c.free.Add(int64(n))
	}
}

// earn is called for each large message that came whole.
func (c *Allowance) earn(n int) {
	if c == nil {
		return
	}
	for {
		have := c.earned.Load()
		add := min(int64(n), maxAllowance-have)
		if add <= 0 {
			return
		}
		if c.earned.CompareAndSwap(have, have+add) {
			c.free.Add(add)
			return
		}
	}
}
