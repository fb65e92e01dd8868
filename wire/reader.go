package wire

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/tarn-go/tarn"
)

const (
	// MaxPeek is the largest n, in bytes, that [Reader.Peek] takes.
	MaxPeek = 64 << 10
	// MaxRead is the largest receive buffer, in bytes, that [Reader.SetSizes] permits.
	MaxRead = 1 << 20
	// IdleWait is the size in bytes of the buffer that a Reader holds while it
	// waits on a connection whose readiness cannot be awaited without one.
	IdleWait = 1 << 10
	// DefaultTrust is the declared length in bytes up to which [Reader.Next]
	// takes memory at once; beyond it memory is taken as bytes arrive.
	DefaultTrust = 64 << 10

	minRead   = 2 << 10  // the receive buffer never asks for less
	firstRead = 4 << 10  // what a new connection starts with
	maxRead   = 64 << 10 // and what a busy one grows to
	direct    = 4 << 10  // a destination at least this long is read into directly
	shrinkRun = 16       // that many reads in a row a quarter full halve the size
)

// Reader reads a connection through pooled memory. It is for one goroutine at a
// time. Deadlines and cancellation are the connection's own: SetReadDeadline on
// it ends a waiting call with os.ErrDeadlineExceeded, after which Peek may be
// called again; Close ends it with net.ErrClosed.
//
// The view of the stream is a cursor: Peek looks at what comes next, Next,
// ReadFull, Read and Discard move past it.
type Reader struct {
	conn       net.Conn
	pool       *tarn.Pool
	buf        tarn.Buffer // the receive buffer; zero while waiting with nothing buffered
	mem        []byte      // buf.Bytes()
	r, w       int         // mem[r:w] is buffered
	size       int         // what the next receive buffer asks for
	small      int         // reads in a row that used less than a quarter
	more       bool        // without readiness: the last read was full, so that more may be there
	trust      int
	idle       int   // without readiness: what a read that may wait asks for
	most       int   // what the receive buffer grows to
	ask        int   // bytes that must come before the caller goes on; 0: any
	water      int   // how many bytes to wait for when many must come; 0: any
	busyWater  int   // the low-water mark while no read waits; 0: left as it is
	low        int   // the socket's low-water mark as set by r; 0: never set
	err        error // what ended the stream; reported once the buffered bytes are gone
	onDeadline func() error
	onRead     func()

	raw  syscall.RawConn       // nil where readiness cannot be awaited
	step func(fd uintptr) bool // bound once, so that a read allocates nothing
	dst  []byte                // where step reads to; nil: the receive buffer
	need int                   // contiguous bytes from r that step must make room for
	n    int                   // what step read
	serr error                 // and the error of that read
}

// NewReader returns a Reader of conn whose memory comes from pool (nil:
// tarn.Shared). conn stays the caller's. A Reader that is not needed any more is
// ended with [Reader.Release].
func NewReader(conn net.Conn, pool *tarn.Pool) *Reader {
	if pool == nil {
		pool = tarn.Shared()
	}
	r := &Reader{conn: conn, pool: pool, size: firstRead, trust: DefaultTrust, idle: IdleWait, most: maxRead}
	r.raw = rawConn(conn)
	if r.raw != nil {
		r.step = r.readable
	}
	return r
}

// SetTrust sets the declared length in bytes up to which Next takes memory at once:
// what the caller itself asked the peer for, say. n ≤ 0 restores DefaultTrust.
func (r *Reader) SetTrust(n int) {
	if n <= 0 {
		n = DefaultTrust
	}
	r.trust = n
}

// OnDeadline sets what is called when a read has met the connection's read
// deadline: if passed returns nil the read goes on, which takes a later deadline,
// else it fails with what passed returned. It may not call r, except Buffered and SetLowWater.
func (r *Reader) OnDeadline(passed func() error) { r.onDeadline = passed }

// OnRead sets what is called after each read of the connection that has returned bytes: calls that wait for
// many bytes may read several times. It may not call r.
func (r *Reader) OnRead(received func()) { r.onRead = received }

// Buffered returns how many bytes can be had without touching the connection.
func (r *Reader) Buffered() int { return r.w - r.r }

// Peek waits until n bytes are buffered and returns them without moving on. The
// slice is borrowed: it is valid until the next call of any method of r. It
// has n bytes, or with an error none: io.EOF when the stream ended exactly here,
// io.ErrUnexpectedEOF when it ended within the n bytes. It panics if n is
// negative or above MaxPeek.
func (r *Reader) Peek(n int) ([]byte, error) {
	if r.w-r.r >= n && n >= 0 {
		return r.mem[r.r : r.r+n : r.r+n], nil
	}
	if n < 0 || n > MaxPeek {
		panic("wire: Peek of a length outside 0..MaxPeek")
	}
	for r.w-r.r < n {
		if err := r.fill(n); err != nil {
			if err == io.EOF && r.w > r.r {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return r.mem[r.r : r.r+n : r.r+n], nil
}

// Next returns a reference to the next n bytes and moves past them; the caller
// frees it. It is a view of the receive buffer where that holds the bytes or can,
// else a buffer of its own, which grows as bytes arrive: it has never more than
// max(trust, 4 × what has arrived), and is held beside the one before it while
// what has arrived is copied. Next(0) is the zero Buffer. The end of the stream
// before n bytes is io.ErrUnexpectedEOF. After any error the position in the
// stream is undefined and r must not be read further. A negative n panics.
func (r *Reader) Next(n int) (tarn.Buffer, error) {
	switch {
	case n < 0:
		panic("wire: Next of a negative length")
	case n == 0:
		return tarn.Buffer{}, nil
	case n > r.w-r.r:
		if n > direct {
			return r.land(n)
		}
		if _, err := r.Peek(n); err != nil {
			return tarn.Buffer{}, unexpected(err)
		}
	}
	return r.take(n), nil
}

// NextBuffered is Next of at most n bytes that are buffered already: the zero
// Buffer when there are none. It never touches the connection.
func (r *Reader) NextBuffered(n int) tarn.Buffer {
	n = min(n, r.w-r.r)
	if n <= 0 {
		return tarn.Buffer{}
	}
	return r.take(n)
}

// ShrinkNext makes the next receive buffer a small one; it grows again as reads fill
// it. It is for a caller that is about to read long payloads to memory of its own: the
// part of them that a large receive buffer has read must be copied.
func (r *Reader) ShrinkNext() { r.size, r.small = min(firstRead, r.most), 0 }

// take hands out mem[r:r+n]. The last bytes of a well-filled receive buffer
// leave with the Reader's own reference; otherwise the rest stays to read into.
func (r *Reader) take(n int) tarn.Buffer {
	if r.r+n == r.w && len(r.mem)-r.w < len(r.mem)/4 {
		b := r.buf.Narrow(r.r, r.r+n)
		r.buf, r.mem, r.r, r.w = tarn.Buffer{}, nil, 0, 0
		return b
	}
	b := r.buf.Slice(r.r, r.r+n)
	r.r += n
	return b
}

// land receives n bytes into a separate buffer.
func (r *Reader) land(n int) (tarn.Buffer, error) {
	r.check()
	var l Landing
	l.Start(r.pool, n, r.trust)
	for l.Left() > 0 {
		m, err := r.ReadFull(l.Space())
		l.Filled(m)
		if err != nil {
			l.Free()
			return tarn.Buffer{}, unexpected(err)
		}
	}
	return l.Take(), nil
}

// Read reads up to len(p) bytes into p, as io.Reader: what is buffered first, or
// else what one read of the connection gives, straight into p if p is long.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.w == r.r {
		if len(p) >= direct {
			return r.readDirect(p)
		}
		if err := r.fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.mem[r.r:r.w])
	r.r += n
	return n, nil
}

// ReadFull fills dst: first from what is buffered, the rest straight from the
// connection. It returns how many bytes it stored, len(dst) if and only if the
// error is nil; the end of the stream before that is io.ErrUnexpectedEOF. It does
// not keep dst.
func (r *Reader) ReadFull(dst []byte) (int, error) {
	got := 0
	for got < len(dst) {
		r.ask = len(dst) - got
		n, err := r.Read(dst[got:])
		r.ask = 0
		got += n
		if err != nil {
			return got, unexpected(err)
		}
	}
	return got, nil
}

// Discard moves past n bytes without keeping them and returns how many it moved past: n, or fewer
// and an error. The end of the stream before n is io.ErrUnexpectedEOF. A negative n panics.
func (r *Reader) Discard(n int) (int, error) {
	if n < 0 {
		panic("wire: Discard of a negative length")
	}
	for left := n; ; {
		m := min(left, r.w-r.r)
		r.r += m
		left -= m
		if left == 0 {
			return n, nil
		}
		if err := r.fill(1); err != nil {
			return n - left, unexpected(err)
		}
	}
}

// Release gives the receive buffer back. What was buffered is lost, and every
// later call that asks for bytes fails with net.ErrClosed. References handed out
// stay valid. It must not be called while another call is under way.
func (r *Reader) Release() {
	r.drop()
	r.unmark()
	r.err = net.ErrClosed
}

var errCannotAwait = errors.New("wire: Await is not supported on this kind of connection")

// unexpected turns the end of the stream into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
