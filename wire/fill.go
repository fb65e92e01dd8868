package wire

import (
	"errors"
	"io"
	"os"

	"github.com/tarn-go/tarn"
)

// fill adds at least one byte to the receive buffer, which it arranges so that
// need bytes from the cursor on can be contiguous.
func (r *Reader) fill(need int) error {
	if r.err != nil {
		return r.err
	}
	r.check()
	for empty := 0; ; {
		n, err := r.read(need)
		if n > 0 {
			r.w += n
			r.noteRead()
			return nil // an error that came with the bytes is returned by the next read
		}
		if err := r.failed(err, &empty); err != nil {
			return err
		}
	}
}

// read reads once, into the receive buffer.
func (r *Reader) read(need int) (n int, err error) {
	if r.raw != nil {
		r.dst, r.need = nil, need
		return r.await()
	}
	size := r.idle // it may have to wait
	if r.more {
		size = max(r.size, min(r.most, recordSize))
	}
	r.room(need, size)
	space := r.mem[r.w:]
	n, err = r.conn.Read(space)
	if r.more = n == len(space); r.more {
		r.size = min(r.size*2, r.most)
	}
	return n, err
}

// readDirect reads once, into p.
func (r *Reader) readDirect(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.check()
	r.drop()
	for empty := 0; ; {
		var n int
		var err error
		if r.raw != nil {
			r.dst = p
			n, err = r.await()
			r.dst = nil
		} else {
			n, err = r.conn.Read(p)
			if n == len(p) {
				r.more = false // the end of a piece: what follows may take long to arrive
			}
		}
		if n > 0 {
			r.noteRead()
			return n, nil
		}
		if err := r.failed(err, &empty); err != nil {
			return 0, err
		}
	}
}

func (r *Reader) noteRead() {
	if r.onRead != nil {
		r.onRead()
	}
}

// failed keeps the error that ended the stream. A deadline does not end it: the caller
// may move the deadline and go on. Nor does a read of nothing, unless it is the last of
// maxEmpty, which empty counts. A nil result says to read again: passed has moved the
// deadline, or nothing has happened (io.Reader).
func (r *Reader) failed(err error, empty *int) error {
	if err == nil {
		if *empty++; *empty < maxEmpty {
			return nil
		}
		err = io.ErrNoProgress
	}
	if r.w == r.r {
		r.drop()
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		r.err = err
	} else if r.onDeadline != nil {
		return r.onDeadline()
	}
	return err
}

// check panics if r was not made by NewReader.
func (r *Reader) check() {
	if r.conn == nil {
		panic("wire: the zero Reader is not ready for use; make one with NewReader")
	}
}

// drop frees the receive buffer and what is in it.
func (r *Reader) drop() {
	r.buf.Free()
	r.buf, r.mem, r.r, r.w = tarn.Buffer{}, nil, 0, 0
}

// room makes sure that the receive buffer can hold need bytes from the cursor on
// and has space to read into. A new one has at least size bytes.
func (r *Reader) room(need, size int) {
	if r.w == r.r && r.mem != nil && r.buf.Unique() { // it holds nothing and no reference to it is out
		if r.pool.Check() == tarn.CheckGuard {
			r.drop() // a view that somebody has kept faults
		} else {
			r.r, r.w = 0, 0
		}
	}
	if r.mem != nil && len(r.mem)-r.r >= need && r.w < len(r.mem) &&
		(len(r.mem)-r.w >= len(r.mem)/4 || r.r < r.w-r.r) {
		// There is room for need bytes. A nearly full buffer is only left when more
		// was taken out of it than would have to be copied, so that a peer that sends
		// byte by byte cannot make each read copy what came before.
		return
	}
	b := r.pool.Get(max(need, size))
	mem := b.Bytes()
	n := copy(mem, r.mem[r.r:r.w])
	r.buf.Free()
	r.buf, r.mem, r.r, r.w = b, mem, 0, n
}

// adapt moves the size of the receive buffer towards what reads return.
func (r *Reader) adapt(got, space int) {
	switch {
	case got == space:
		r.size = min(r.size*2, r.most)
		r.small = 0
	case got < r.size/4:
		if r.small++; r.small >= shrinkRun {
			r.small = 0
			r.size = max(r.size/2, minRead)
		}
	default:
		r.small = 0
	}
}
