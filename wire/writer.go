package wire

import (
	"net"
	"syscall"

	"github.com/tarn-go/tarn"
)

const (
	// copyBelow is the length in bytes below which a piece is copied rather than
	// passed by reference on a connection that can vector (plain TCP and Unix).
	copyBelow = 2 << 10
	// recordSize is the most payload of a TLS record (RFC 8446 section 5.1). On a
	// connection that cannot vector, pieces are gathered into writes of this
	// length, and a piece's whole records go from where they are.
	recordSize = 16 << 10
	// copyBelowRecord is copyBelow on connections that cannot vector: what does not fill
	// records would be copied in any case.
	copyBelowRecord = 4 << 10
)

// Writer gathers what is to be sent and sends it on Flush. It is for one
// goroutine at a time. Write deadlines are the connection's own (absolute, so
// that they bound a Flush of many system calls as a whole); the Writer never
// moves them.
//
// After an error every later Flush or Send returns that error.
type Writer struct {
	conn   net.Conn
	pool   *tarn.Pool
	vector bool        // conn takes a vector in one system call
	bufs   net.Buffers // what WriteTo consumes; a field, since it escapes
	batch  Batch
	err    error

	raw  syscall.RawConn       // for TrySend; nil where it cannot be had
	step func(fd uintptr) bool // bound once
	try  *Batch                // what step sends
	terr error                 // the error of step
}

// NewWriter returns a Writer to conn whose memory comes from pool (nil:
// tarn.Shared). conn stays the caller's.
func NewWriter(conn net.Conn, pool *tarn.Pool) *Writer {
	if pool == nil {
		pool = tarn.Shared()
	}
	w := &Writer{conn: conn, pool: pool}
	switch conn.(type) { // exactly these: one that embeds them has its own Write
	case *net.TCPConn, *net.UnixConn:
		w.vector = true
	}
	w.raw = tryConn(conn)
	if w.raw != nil {
		w.step = w.writable
	}
	w.batch = *w.NewBatch()
	return w
}

// NewBatch returns an empty batch that suits w's connection, to be gathered apart
// from w (under another lock, say) and passed to Send or TrySend.
func (w *Writer) NewBatch() *Batch {
	b := &Batch{pool: w.pool, below: copyBelow}
	if !w.vector {
		b.below = copyBelowRecord
	}
	return b
}

// Space appends n bytes and returns them for the caller to fill before the next call of a method of w. n must be
// in 0..MaxPeek, else it panics.
func (w *Writer) Space(n int) []byte { return w.batch.Space(n) }

// Write appends a copy of p. Errors come from Flush.
func (w *Writer) Write(p []byte) (int, error) { return w.batch.Write(p) }

// Append appends b and takes ownership of it.
func (w *Writer) Append(b tarn.Buffer) { w.batch.Append(b) }

// Borrow appends p, by reference when large: it must not change before Flush
// has returned.
func (w *Writer) Borrow(p []byte) { w.batch.Borrow(p) }

// AppendChain moves the first n bytes of c to the end of what is to be sent. It panics if c holds fewer.
func (w *Writer) AppendChain(c *tarn.Chain, n int) { w.batch.AppendChain(c, n) }

// Buffered returns how many bytes await Flush.
func (w *Writer) Buffered() int { return w.batch.Len() }

// Flush sends what was gathered and frees it, whatever the outcome.
func (w *Writer) Flush() error { return w.Send(&w.batch) }

// Release drops what was gathered and frees it. Every later Flush or Send fails, with net.ErrClosed if none did before.
func (w *Writer) Release() {
	w.batch.Clear()
	if w.err == nil {
		w.err = net.ErrClosed
	}
}

// Send sends b, waiting as long as it takes, and clears it, whatever the outcome.
func (w *Writer) Send(b *Batch) error {
	if w.err == nil && b.Len() > 0 {
		w.err = w.sendVec(b.pending())
	}
	b.Clear()
	return w.err
}

// sendVec sends vec, which it may consume.
func (w *Writer) sendVec(vec [][]byte) error {
	if w.conn == nil {
		panic("wire: the zero Writer is not ready for use; make one with NewWriter")
	}
	switch {
	case len(vec) == 1:
		return w.write(vec[0])
	case w.vector:
		// WriteTo passes 1024 entries at most a call, handles short writes, and consumes
		// the slice it is given.
		w.bufs = vec
		_, err := w.bufs.WriteTo(w.conn)
		w.bufs = nil
		return err
	default:
		return w.records(vec)
	}
}

// records sends vec in writes of recordSize, except that the whole records of a
// long piece are passed on in one go.
func (w *Writer) records(vec [][]byte) error {
	rec := w.pool.Get(recordSize)
	defer rec.Free()
	mem, n := rec.Bytes(), 0
	for _, p := range vec {
		for len(p) > 0 {
			if whole := len(p) / recordSize * recordSize; n == 0 && whole > 0 {
				if err := w.write(p[:whole]); err != nil {
					return err
				}
				p = p[whole:]
				continue
			}
			m := copy(mem[n:], p)
			p = p[m:]
			if n += m; n == recordSize {
				if err := w.write(mem); err != nil {
					return err
				}
				n = 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	return w.write(mem[:n])
}

// write is conn.Write, with an error for each short write, as io.Writer requires.
func (w *Writer) write(p []byte) error {
	for len(p) > 0 {
		n, err := w.conn.Write(p)
		if err != nil {
			return err
		}
		if n <= 0 || n > len(p) {
			return errShortWrite
		}
		p = p[n:]
	}
	return nil
}
