package h2http

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

const (
	// gatherSize is how many bytes of a response are gathered before its header is
	// sent, as in net/http: a response that is no longer gets a Content-Length.
	gatherSize = 4 << 10
	// pieceSize is how many bytes of a handler's Write a handler's goroutine copies at a time, and how
	// many of a Reader or of a request's body are read to begin with.
	pieceSize = 64 << 10
	// minPiece and maxPiece bound how many are read later on of a request's body. Of a
	// response's Reader a handler's goroutine reads no more than pieceSize at a time: where many are sent
	// at once, larger pieces leave the processor's cache before they are sent.
	minPiece = 4 << 10
	maxPiece = 256 << 10
)

// nextPiece returns how many bytes to ask a Reader for that was asked for size bytes
// and gave n. The memory is held until what was read is sent, so a Reader that gives
// little is asked for less.
func nextPiece(size, n int) int {
	switch {
	case n == size:
		return min(2*size, maxPiece)
	case n < size/4:
		return max(size/2, minPiece)
	}
	return size
}

// responseWriter is the http.ResponseWriter of an exchange, and part of it. As for
// every ResponseWriter, one goroutine at a time may use it; sendContinue alone may be
// called beside that.
type responseWriter struct {
	x       *exchange
	scratch *scratch

	header   http.Header // the handler's; made by Header
	head     responseHead
	gathered tarn.Buffer // gatherSize long; zero: nothing
	n        int         // bytes in it
	written  int64
	failed   error // what sending has failed with; nil: it has not
	closed   bool  // the handler has returned

	mu        sync.Mutex  // one Write on the stream at a time
	sent      atomic.Bool // the header has been sent
	continued bool        // 100 Continue has been sent; mu
}

var (
	_ http.Flusher = (*responseWriter)(nil)
	//lint:ignore SA1019 handlers older than Request.Context ask for it, and net/http has it
	_ http.CloseNotifier = (*responseWriter)(nil) // as net/http's
	_ http.Pusher        = (*responseWriter)(nil)
	_ io.StringWriter    = (*responseWriter)(nil)
	_ io.ReaderFrom      = (*responseWriter)(nil)
	_ chainWriter        = (*responseWriter)(nil)
)

// inUse panics when the handler has returned.
func (w *responseWriter) inUse(method string) {
	if w.closed {
		panic("h2http: " + method + " called after the handler has returned")
	}
}

// Header returns the header map, of which the state when WriteHeader is called is sent.
func (w *responseWriter) Header() http.Header {
	w.inUse("Header")
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader takes the status and the header. Informational ones (1xx) are sent at
// once.
func (w *responseWriter) WriteHeader(status int) {
	w.inUse("WriteHeader")
	if w.head.status != 0 {
		w.x.conn.engine.superfluous(status)
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if status < 200 {
		w.inform(status)
		return
	}
	w.head.fill(w, status)
}

// Write writes content.
func (w *responseWriter) Write(p []byte) (int, error) { return writeBytes(w, p) }

// WriteString writes content.
func (w *responseWriter) WriteString(s string) (int, error) { return writeBytes(w, s) }

func writeBytes[T []byte | string](w *responseWriter, p T) (int, error) {
	if err := w.admit(len(p)); err != nil {
		return 0, err
	}
	total := len(p)
	head := w.x.request.Method == http.MethodHead
	if total >= sourceFrom && !head {
		if w.needsSniff() {
			w.head.contentType = http.DetectContentType([]byte(p[:sniffLen]))
		}
		n, err := w.supply(&bytesSource[T]{w.x.conn.engine.pool, p}, int64(total))
		return int(n), err
	}
	if w.n+total > gatherSize {
		c := &w.scratch.chain
		left := p
		if head {
			left = p[:min(total, sniffLen)] // it is not sent
		}
		for len(left) > 0 {
			m := min(len(left), pieceSize)
			b := w.x.conn.engine.pool.Get(m)
			copy(b.Bytes(), left[:m])
			c.Append(b)
			left = left[m:]
		}
		if err := w.chunk(c, h2.More); err != nil {
			return 0, err
		}
		return total, nil
	}
	if total > 0 {
		if w.gathered.IsZero() {
			w.gathered = w.x.conn.engine.pool.Get(gatherSize)
		}
		w.n += copy(w.gathered.Bytes()[w.n:], p)
	}
	return total, nil
}

// admit says why n more bytes cannot be written, if so.
func (w *responseWriter) admit(n int) error {
	w.inUse("Write")
	if w.head.status == 0 {
		w.head.fill(w, http.StatusOK)
	}
	if !bodyAllowed(w.head.status) {
		return http.ErrBodyNotAllowed
	}
	w.written += int64(n)
	if w.head.length >= 0 && w.written > w.head.length {
		return http.ErrContentLength
	}
	return w.failed // a short Write is only gathered and would succeed, after each Flush that fails
}

// writeChain writes all of c; it takes ownership of what c holds.
func (w *responseWriter) writeChain(c *tarn.Chain) error {
	n := c.Len()
	if err := w.admit(n); err != nil {
		c.Free()
		return err
	}
	if w.n+n <= gatherSize {
		if w.gathered.IsZero() && n > 0 {
			w.gathered = w.x.conn.engine.pool.Get(gatherSize)
		}
		for c.Len() > 0 {
			m, _ := c.Read(w.gathered.Bytes()[w.n:])
			w.n += m
		}
		return nil
	}
	return w.chunk(c, h2.More)
}

// ReadFrom writes what src has left. It is read into the memory that is sent: of a file of which an io.LimitedReader gives at least
// sourceFrom bytes, what the system has in memory is read by the goroutine that sends, just before.
func (w *responseWriter) ReadFrom(src io.Reader) (n int64, err error) {
	if b, ok := src.(*body); ok {
		return b.WriteTo(w)
	}
	size := pieceSize
	l, ok := src.(*io.LimitedReader)
	if ok {
		size = int(max(min(l.N, pieceSize), minPiece))
	}
	f := w.fileOf(l)
	for {
		if f != nil && w.decided() {
			sent, err := w.sendFile(f, l)
			n += sent
			if err != nil || l.N == 0 {
				return n, err
			}
			if !f.usable() {
				f = nil
			}
		}
		b, m, err := w.readPiece(src, size)
		size = min(nextPiece(size, m), pieceSize)
		if m > 0 {
			n += int64(m)
			c := &w.scratch.chain
			c.Append(b.Narrow(0, m))
			if werr := w.writeChain(c); werr != nil {
				return n, werr
			}
		} else {
			b.Free()
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// readPiece reads from src, once, m bytes into memory of size bytes, which is returned to be freed.
func (w *responseWriter) readPiece(src io.Reader, size int) (b tarn.Buffer, m int, err error) {
	b = w.x.conn.engine.pool.Get(size)
	returned := false
	defer func() {
		if !returned {
			b.Free() // src panicked
		}
	}()
	m, err = src.Read(b.Bytes())
	returned = true
	return b, m, err
}

// Flush sends what has been written.
func (w *responseWriter) Flush() { w.FlushError() }

// FlushError is Flush that says why it failed.
func (w *responseWriter) FlushError() error {
	w.inUse("Flush")
	if w.head.status == 0 {
		w.head.fill(w, http.StatusOK)
	}
	if w.n > 0 || !w.sent.Load() {
		return w.chunk(nil, h2.More)
	}
	return w.x.why(nil)
}

// chunk sends what is gathered and then all of c (nil: nothing), which is left empty, before these
// the header and after these, with End, the trailers.
func (w *responseWriter) chunk(c *tarn.Chain, e h2.Ending) error {
	return w.send(c, e, atOnce)
}

// departure says when what is sent leaves.
type departure uint8

const (
	atOnce departure = iota
	later            // with what is sent next on the connection, or when it is flushed
)

// send is chunk with a choice of when that leaves.
func (w *responseWriter) send(c *tarn.Chain, e h2.Ending, d departure) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := w.x.request.Method == http.MethodHead
	if head && w.sent.Load() {
		if c != nil {
			c.Free()
		}
		w.drop()
		return w.x.why(w.failed)
	}
	o := h2.Out{Rest: c, Ending: e}
	w.precede(&o)
	if head {
		o.Data.Free()
		o.Data = tarn.Buffer{}
		if c != nil {
			c.Free()
		}
		o.Ending = h2.End // nothing follows the header, whatever the handler does
	} else if e == h2.End {
		w.putTrailers(&o)
	}
	var err error
	if d == later {
		err = w.x.stream.WriteLater(nil, &o)
	} else {
		err = w.x.stream.Write(nil, &o)
	}
	if err != nil {
		w.failed = w.x.why(err)
		return w.failed
	}
	if head && e == h2.More {
		w.x.answered()
	}
	return nil
}

// precede puts what is to be sent before the rest of o into it: the header, unless it has been sent, and what is gathered. mu is held.
func (w *responseWriter) precede(o *h2.Out) {
	n := w.n
	if o.Rest != nil {
		n += o.Rest.Len()
	}
	if w.n > 0 {
		o.Data = w.gathered.Narrow(0, w.n)
	} else {
		w.gathered.Free()
	}
	w.gathered, w.n = tarn.Buffer{}, 0
	if w.sent.Load() {
		return
	}
	w.sent.Store(true)
	if w.head.needsType && w.head.contentType == "" && n > 0 {
		w.head.contentType = http.DetectContentType(firstBytes(o))
	}
	w.head.put(w, o, n)
}

// decided reports whether nothing about the header depends on content that is yet to be read, nor on whether it can be read: the handler
// may answer with an error then, and a response that turns out to be short gets a Content-Length.
func (w *responseWriter) decided() bool {
	return w.sent.Load() || w.head.status != 0 && w.head.length >= 0 && !w.needsSniff()
}

// needsSniff reports whether the header waits for the first bytes of content, which tell their type.
func (w *responseWriter) needsSniff() bool { return w.head.needsType && w.n == 0 && !w.sent.Load() }

// sniffLen is how many bytes http.DetectContentType looks at.
const sniffLen = 512

// firstBytes returns the first bytes of the content of o.
func firstBytes(o *h2.Out) []byte {
	if o.Data.Len() > 0 {
		return o.Data.Bytes()
	}
	p := make([]byte, sniffLen)
	return p[:o.Rest.CopyTo(p)]
}

func (w *responseWriter) drop() {
	w.gathered.Free()
	w.gathered, w.n = tarn.Buffer{}, 0
}

// finish ends the response after the handler has returned. If the next request is one
// of the same connection it leaves the end queued, to be sent together with the next
// response, and reports true.
func (w *responseWriter) finish() (unsent bool) {
	if w.head.status == 0 {
		w.head.fill(w, http.StatusOK)
	}
	d := atOnce
	if w.x.conn.engine.workers.Next() == w.x.conn.h2 {
		d = later
	}
	w.send(nil, h2.End, d) // an error means that the client does not wait for it
	return d == later
}

// close ends the use of w and of what it has borrowed.
func (w *responseWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.drop()
	w.scratch.tidy()
	w.scratch = nil
}

// inform sends an informational response.
func (w *responseWriter) inform(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.continued = w.continued || status == http.StatusContinue
	fields := append(w.scratch.fields[:0], statusField(status))
	fields = appendHeader(fields, w.header)
	w.scratch.fields = fields
	w.x.stream.Write(nil, &h2.Out{Fields: fields}) // an error shows on the next write
}

// sendContinue sends 100 Continue unless the handler has sent it or the response has begun.
func (w *responseWriter) sendContinue() {
	if w.sent.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sent.Load() && !w.closed && !w.continued {
		w.x.stream.Write(nil, &h2.Out{Block: continueBlock})
	}
}

// SetReadDeadline sets when reading the request's body fails with
// os.ErrDeadlineExceeded.
func (w *responseWriter) SetReadDeadline(t time.Time) error {
	w.inUse("SetReadDeadline")
	if !t.IsZero() && !t.After(time.Now()) {
		w.x.readTimeout()
		return nil
	}
	w.x.deadline.set(&w.x.deadline.read, t, w.x.readTimeout)
	return nil
}

// SetWriteDeadline sets when the stream is reset and writing fails with
// os.ErrDeadlineExceeded.
func (w *responseWriter) SetWriteDeadline(t time.Time) error {
	w.inUse("SetWriteDeadline")
	if !t.IsZero() && !t.After(time.Now()) {
		w.x.writeTimeout()
		return nil
	}
	w.x.deadline.set(&w.x.deadline.write, t, w.x.writeTimeout)
	return nil
}

// EnableFullDuplex does nothing: reading and writing are independent in HTTP/2.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// Push returns http.ErrNotSupported.
func (w *responseWriter) Push(string, *http.PushOptions) error { return http.ErrNotSupported }

// CloseNotify returns a channel that receives when the request's context ends.
func (w *responseWriter) CloseNotify() <-chan bool {
	w.inUse("CloseNotify")
	ch := make(chan bool, 1)
	w.x.ctx.AfterFunc(func() { ch <- true })
	return ch
}

// bodyAllowed reports whether a response of this status has content (RFC 9110 section
// 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
