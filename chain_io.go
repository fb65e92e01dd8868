package tarn

import (
	"io"
	"math/bits"
	"net"
)

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

const (
	maxVector = 256      // views in one vectored write; the kernel takes 1024, and the deadline is looked at between
	keptViews = 64       // a longer vector is not kept
	coalesce  = 16 << 10 // bytes: shorter segments are written together; one TLS record
)

// vector is the views for one vectored write. It is empty in between, so that it pins nothing.
type vector struct {
	views [][]byte
	rest  net.Buffers // of views; a field, because WriteTo would make a variable escape
}

// WriteTo writes the bytes to w and frees those written. On an error the rest stays in the chain,
// so that a caller may go on, say after a deadline. A *net.TCPConn or *net.UnixConn gets vectored
// writes; any other writer, which would see one Write for each segment, gets small segments
// coalesced into Writes of up to 16 KiB, one TLS record, and larger ones as they are. A writer that
// writes less without an error is answered with io.ErrShortWrite, one that claims more with
// ErrCount; errors of w itself are returned as they are.
func (c *Chain) WriteTo(w io.Writer) (int64, error) {
	switch conn := w.(type) {
	case *net.TCPConn:
		return c.writeVectored(conn)
	case *net.UnixConn:
		return c.writeVectored(conn)
	default: // also types that embed the above: their own Write is to be called
		return c.writeCoalesced(w)
	}
}

func (c *Chain) writeVectored(conn net.Conn) (written int64, err error) {
	for c.n > 0 && err == nil {
		if c.n == 1 {
			var n int
			n, err = conn.Write(c.at(0).Bytes())
			c.discard(n)
			written += int64(n)
			continue
		}
		if c.rope == nil {
			c.rope = new(rope)
		}
		var n int64
		n, err = c.rope.vec.write(c, conn)
		c.discard(int(n))
		written += n
	}
	return written, err
}

// write writes the first segments and discards none.
func (v *vector) write(c *Chain, conn net.Conn) (int64, error) {
	n := min(int(c.n), maxVector)
	if n > cap(v.views) {
		v.views = make([][]byte, 0, 1<<bits.Len(uint(n-1)))
	}
	v.views = v.views[:n]
	for i := range v.views {
		v.views[i] = c.at(int32(i)).Bytes()
	}
	v.rest = v.views
	written, err := v.rest.WriteTo(conn)
	v.rest = nil
	clear(v.views)
	v.views = v.views[:0]
	if cap(v.views) > keptViews {
		v.views = nil
	}
	return written, err
}

func (c *Chain) writeCoalesced(w io.Writer) (written int64, err error) {
	var scratch Buffer
	defer func() { scratch.Free() }()
	for c.n > 0 {
		p := c.at(0).Bytes()
		if c.n > 1 && len(p) < coalesce {
			if scratch.IsZero() {
				scratch = c.source().Get(min(coalesce, c.bytes))
			}
			p = scratch.Bytes()
			p = p[:c.CopyTo(p)]
		}
		n, err := w.Write(p)
		if n < 0 || n > len(p) {
			return written, ErrCount
		}
		c.discard(n)
		written += int64(n)
		if err != nil {
			return written, err
		}
		if n < len(p) {
			return written, io.ErrShortWrite
		}
	}
	return written, nil
}
