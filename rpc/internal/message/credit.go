package message

import "sync/atomic"

// maxCredit bounds what one connection may be trusted with, in bytes.
const maxCredit = 16 << 20

// Credit is how far a peer's word about the length of large messages is taken.
// It starts at nothing, grows by every large message that came whole, up to
// maxCredit, and is used up while messages taken on trust are under way. So a
// peer makes this side hold at most what it has once delivered, and never more
// than maxCredit, on its word alone. The zero Credit is ready and safe for
// concurrent use.
type Credit struct{ free, earned atomic.Int64 }

// take uses n of the credit, if there is so much.
func (c *Credit) take(n int) bool {
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
func (c *Credit) give(n int) {
	if n > 0 {
		c.free.Add(int64(n))
	}
}

// earn is called for each large message that came whole.
func (c *Credit) earn(n int) {
	if c == nil {
		return
	}
	for {
		have := c.earned.Load()
		add := min(int64(n), maxCredit-have)
		if add <= 0 {
			return
		}
		if c.earned.CompareAndSwap(have, have+add) {
			c.free.Add(add)
			return
		}
	}
}
