package tarn

import (
	"bytes"
	"io"
)

// Peek appends views of the first n bytes to dst, one for each segment, and returns it: borrowed,
// valid until the chain is next changed, not to be written to. With fewer than n bytes it returns dst
// and ErrShort. The chain keeps no reference to dst. O(segments); allocates only when dst is too
// short.
func (c *Chain) Peek(n int, dst [][]byte) ([][]byte, error) {
	if !c.has(n) {
		return dst, ErrShort
	}
	for i := int32(0); n > 0; i++ {
		p := c.at(i).Bytes()
		p = p[:min(n, len(p)):min(n, len(p))]
		dst = append(dst, p)
		n -= len(p)
	}
	return dst, nil
}

// has reports whether there are n bytes, and panics if n is negative.
func (c *Chain) has(n int) bool {
	if n < 0 {
		outOfBounds(c.bytes, 0, n)
	}
	return n <= c.bytes
}

// Discard frees the first n bytes and returns n; or 0 and ErrShort if there are fewer, and frees
// nothing. O(segments freed).
func (c *Chain) Discard(n int) (int, error) {
	if !c.has(n) {
		return 0, ErrShort
	}
	c.discard(n)
	return n, nil
}

func (c *Chain) discard(n int) {
	for n > 0 {
		first := c.at(0)
		if first.n > n {
			*first = first.Narrow(n, first.n)
			c.bytes -= n
			return
		}
		n -= first.n
		b := c.pop()
		b.Free()
	}
}

// Cut moves the first n bytes into a chain of their own, to be freed. With fewer than n bytes it
// returns ErrShort and moves nothing. O(segments moved).
func (c *Chain) Cut(n int) (Chain, error) {
	var out Chain
	err := c.CutTo(&out, n)
	return out, err
}

// CutTo is Cut to the end of a chain that exists, so that one can be used again and again without
// allocating. A chain cannot be cut to itself: that panics.
func (c *Chain) CutTo(dst *Chain, n int) error {
	if c == dst {
		panic("tarn: a chain cut to itself")
	}
	if !c.has(n) {
		return ErrShort
	}
	if n == c.bytes && dst.n == 0 {
		c.swap(dst)
		return nil
	}
	for n > 0 {
		first := c.at(0)
		if first.n > n {
			dst.Append(c.split(n))
			return nil
		}
		n -= first.n
		dst.Append(c.pop())
	}
	return nil
}

// split takes the first n bytes of the first segment, which has more.
func (c *Chain) split(n int) Buffer {
	first := c.at(0)
	head, tail := first.Split(n)
	*first = tail
	c.bytes -= n
	return head
}

// Next takes the first n bytes out as one Buffer, to be freed: a reference if they lie in one
// segment, otherwise a copy. With fewer than n bytes it returns ErrShort and takes nothing.
// Next(0) is the zero Buffer.
func (c *Chain) Next(n int) (Buffer, error) {
	if !c.has(n) {
		return Buffer{}, ErrShort
	}
	if n == 0 {
		return Buffer{}, nil
	}
	switch first := c.at(0); {
	case first.n == n:
		return c.pop(), nil
	case first.n > n:
		return c.split(n), nil
	}
	b := c.source().Get(n)
	c.CopyTo(b.Bytes())
	c.discard(n)
	return b, nil
}

// NextSegment takes the first segment out, whatever its length, to be freed; the zero Buffer from an
// empty chain. O(1).
func (c *Chain) NextSegment() Buffer {
	if c.n == 0 {
		return Buffer{}
	}
	return c.pop()
}

// Ref returns a chain of further references to the same bytes, to be freed on its own. As both see
// the same memory, neither's bytes may be written (rule 3). O(segments).
func (c *Chain) Ref() Chain {
	var out Chain
	out.pool = c.pool
	for i := range c.n {
		out.Append(c.at(i).Ref())
	}
	return out
}

// Read copies bytes out into p and frees them. At the end of the chain it returns io.EOF.
func (c *Chain) Read(p []byte) (int, error) {
	if c.n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := c.CopyTo(p)
	c.discard(n)
	return n, nil
}

// ReadByte takes one byte out, or returns io.EOF.
func (c *Chain) ReadByte() (byte, error) {
	if c.n == 0 {
		return 0, io.EOF
	}
	v := c.at(0).Bytes()[0]
	c.discard(1)
	return v, nil
}

// CopyTo copies as many of the first bytes as dst has space for, and returns how many. The chain
// keeps them.
func (c *Chain) CopyTo(dst []byte) int {
	n := 0
	for i := int32(0); i < c.n && n < len(dst); i++ {
		n += copy(dst[n:], c.at(i).Bytes())
	}
	return n
}

// IndexByte is the position of the first byte of value v, or -1.
func (c *Chain) IndexByte(v byte) int {
	before := 0
	for i := range c.n {
		p := c.at(i).Bytes()
		if k := bytes.IndexByte(p, v); k >= 0 {
			return before + k
		}
		before += len(p)
	}
	return -1
}
