package tarn

import "io"

const (
	minRead   = 512 // free bytes below which a new buffer is taken before a Read
	firstRead = 4 << 10
	maxRead   = 256 << 10
	manyReads = 8   // when so many Reads fill one buffer, the next one is smaller
	maxEmpty  = 100 // Reads in a row of nothing, without an error
)

// ReadFrom reads from r until io.EOF, which is no error to it, straight into pooled memory at the
// chain's end. Buffers grow from 4 KiB to 256 KiB while r fills them, and shrink again when it takes
// many Reads to fill one. What was read before an error is in the chain. The errors are r's own,
// io.ErrNoProgress when r keeps reading nothing, and ErrCount when it claims an impossible count.
//
// While r blocks, the chain holds the buffer it will read into.
func (c *Chain) ReadFrom(r io.Reader) (int64, error) { return c.readFrom(r, c.lastSource()) }

// lastSource is source for what goes to the end.
func (c *Chain) lastSource() *Pool {
	if c.pool == nil && c.n > 0 {
		return c.at(c.n - 1).owner()
	}
	return c.source()
}

func (c *Chain) readFrom(r io.Reader, a Allocator) (total int64, err error) {
	size, reads, empty := firstRead, 0, 0
	fresh := false // nothing of the chain is in the room's slab
	for {
		if c.room.n < minRead {
			if reads >= manyReads {
				size = max(size/2, firstRead)
			}
			c.reserve(a, minRead, size)
			reads, fresh = 0, true
		}
		p := c.room.Bytes()
		n, err := r.Read(p)
		if n < 0 || n > len(p) {
			n, err = 0, ErrCount
		}
		if n > 0 {
			c.lengthen(n)
			c.fill(n)
			total += int64(n)
			reads, empty, fresh = reads+1, 0, false
			if n == len(p) && reads == 1 {
				size = min(2*size, maxRead)
			}
		} else if empty++; empty == maxEmpty && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			if fresh {
				c.room.Free()
				c.room = Buffer{}
			}
			if err == io.EOF {
				err = nil
			}
			return total, err
		}
	}
}
