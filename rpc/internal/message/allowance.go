package message

import "sync/atomic"

// maxAllowance bounds the allowance of one connection, in bytes.
const maxAllowance = 16 << 20

// Allowance is how many bytes of memory a connection takes because of a length that its peer declares, before
// the data arrives. It starts at 0, grows by the length of every large message that arrived completely, up to
// maxAllowance, and is in use while such messages are arriving. So a declared length makes this side hold at
// most as much as the peer has delivered before, and never more than maxAllowance. The zero Allowance is
// ready and safe for concurrent use.
type Allowance struct{ free, earned atomic.Int64 }

// take uses n bytes of the allowance, if that many are free.
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

// give returns bytes of take.
func (c *Allowance) give(n int) {
	if c != nil && n > 0 {
		c.free.Add(int64(n))
	}
}

// earn is called for each large message that arrived completely.
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
