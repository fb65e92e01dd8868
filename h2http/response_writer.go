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
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/monotonic"
	"github.com/tarn-go/tarn/internal/preset"
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
// every ResponseWriter, one goroutine at a time may use it. Its mutex is there for sendContinue, which may be called
// beside that, and for goroutines that use it when the handler has returned although they may not: none of them reaches
// the response of another exchange.
type responseWriter struct {
	x *exchange

	mu        sync.Mutex
	r         *response   // lent by the worker while the handler runs; nil: it has returned
	closed    atomic.Bool // the handler has returned; for methods that do not wait for a Write
	sent      atomic.Bool // the header has been sent
	continued bool        // 100 Continue has been sent
	released  bool        // the stream has been released, with the end of the response
}

var (
	_ http.Flusher = (*responseWriter)(nil)
	//lint:ignore SA1019 handlers older than Request.Context ask for it, and net/http has it
	_ http.CloseNotifier = (*responseWriter)(nil) // as net/http's
	_ http.Pusher        = (*responseWriter)(nil)
	_ io.StringWriter    = (*responseWriter)(nil)
	_ io.ReaderFrom      = (*responseWriter)(nil)
	_ chainWriter        = (*responseWriter)(nil)
	_ preset.Writer      = (*responseWriter)(nil)
	_ fields.Source      = (*responseWriter)(nil)
)

// inUse returns the response; it panics when the handler has returned. mu is held.
func (w *responseWriter) inUse(method string) *response {
	if w.r == nil {
		panicClosed(method)
	}
	return w.r
}

func panicClosed(method string) {
	panic("h2http: " + method + " called after the handler has returned")
}

// Header returns the header map, of which the state when WriteHeader is called is sent.
func (w *responseWriter) Header() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inUse("Header").headerMap()
}

// Preset sets a field of the header. It implements preset.Writer.
func (w *responseWriter) Preset(f preset.Field) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse("Header").set(f)
}

// Fields returns the request's fields if it has no Header. It implements fields.Source.
func (w *responseWriter) Fields() *fields.List {
	if w.x.request.Header != nil {
		return nil
	}
	return &w.x.fields
}

// WriteHeader takes the status and the header. Informational ones (1xx) are sent at
// once.
func (w *responseWriter) WriteHeader(status int) {
	if w.writeHeader(status) {
		w.x.conn.engine.superfluous(status)
	}
}

// writeHeader is WriteHeader; it reports whether there was a status before.
func (w *responseWriter) writeHeader(status int) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.inUse("WriteHeader")
	if r.head.status != 0 {
		return true
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	switch {
	case status == http.StatusSwitchingProtocols: // RFC 9113 section 8.6
		w.x.conn.engine.logf("h2http: WriteHeader(101) is ignored: HTTP/2 does not have that status")
	case status < 200:
		w.inform(r, status)
	default:
		r.head.fill(w, r, status)
	}
	return false
}

// Write writes content.
func (w *responseWriter) Write(p []byte) (int, error) { return writeBytes(w, p) }

// WriteString writes content.
func (w *responseWriter) WriteString(s string) (int, error) { return writeBytes(w, s) }

func writeBytes[T []byte | string](w *responseWriter, p T) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.admit(len(p))
	if err != nil {
		return 0, err
	}
	total := len(p)
	pool := w.x.memory()
	head := w.x.request.Method == http.MethodHead
	if total >= sourceFrom && !head {
		if w.needsSniff(r) {
			r.head.contentType = http.DetectContentType([]byte(p[:sniffLen]))
		}
		n, err := w.supply(r, &bytesSource[T]{pool, p}, int64(total))
		return int(n), err
	}
	if r.n+total > gatherSize {
		c := &r.chain
		left := p
		if head {
			left = p[:min(total, sniffLen)] // it is not sent
		}
		for len(left) > 0 {
			m := min(len(left), pieceSize)
			b := pool.Get(m)
			copy(b.Bytes(), left[:m])
			c.Append(b)
			left = left[m:]
		}
		if err := w.chunk(r, c, h2.More); err != nil {
			return 0, err
		}
		return total, nil
	}
	if total > 0 {
		if r.gathered.IsZero() {
			r.gathered = pool.Get(gatherSize)
		}
		r.n += copy(r.gathered.Bytes()[r.n:], p)
	}
	return total, nil
}

// admit says why n more bytes cannot be written, if so. mu is held.
func (w *responseWriter) admit(n int) (*response, error) {
	r := w.inUse("Write")
	if r.head.status == 0 {
		r.head.fill(w, r, http.StatusOK)
	}
	if !bodyAllowed(r.head.status) {
		return nil, http.ErrBodyNotAllowed
	}
	r.written += int64(n)
	if r.head.length >= 0 && r.written > r.head.length {
		return nil, http.ErrContentLength
	}
	return r, r.failed // a short Write is only gathered and would succeed, after each Flush that fails
}

// writeChain writes all of c; it takes ownership of what c holds.
func (w *responseWriter) writeChain(c *tarn.Chain) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeChainLocked(c)
}

// writeChainLocked is writeChain. mu is held.
func (w *responseWriter) writeChainLocked(c *tarn.Chain) error {
	if w.r == nil {
		c.Free()
		panicClosed("Write")
	}
	n := c.Len()
	r, err := w.admit(n)
	if err != nil {
		c.Free()
		return err
	}
	if r.n+n <= gatherSize {
		if r.gathered.IsZero() && n > 0 {
			r.gathered = w.x.memory().Get(gatherSize)
		}
		for c.Len() > 0 {
			m, _ := c.Read(r.gathered.Bytes()[r.n:])
			r.n += m
		}
		return nil
	}
	return w.chunk(r, c, h2.More)
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
		if f != nil {
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
			if werr := w.writePiece(b.Narrow(0, m)); werr != nil {
				return n, werr
			}
			n += int64(m)
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

// writePiece writes b, which it takes ownership of.
func (w *responseWriter) writePiece(b tarn.Buffer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.r == nil {
		b.Free()
		panicClosed("ReadFrom")
	}
	w.r.chain.Append(b)
	return w.writeChainLocked(&w.r.chain)
}

// readPiece reads from src, once, m bytes into memory of size bytes, which is returned to be freed.
func (w *responseWriter) readPiece(src io.Reader, size int) (b tarn.Buffer, m int, err error) {
	b = w.x.memory().Get(size)
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
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.inUse("Flush")
	if r.head.status == 0 {
		r.head.fill(w, r, http.StatusOK)
	}
	if r.n > 0 || !w.sent.Load() {
		return w.chunk(r, nil, h2.More)
	}
	return w.x.why(nil)
}

// chunk sends what is gathered and then all of c (nil: nothing), which is left empty, before these
// the header and after these, with End, the trailers. mu is held.
func (w *responseWriter) chunk(r *response, c *tarn.Chain, e h2.Ending) error {
	return w.send(r, &h2.Out{Rest: c, Ending: e}, atOnce)
}

// departure says when what is sent leaves.
type departure uint8

const (
	atOnce departure = iota
	later            // with what is sent next on the connection, or when it is flushed
)

// send is chunk with a choice of when that leaves. Of o Rest, Ending and Release are set, which is left unset if the stream is not
// released. mu is held.
func (w *responseWriter) send(r *response, o *h2.Out, d departure) error {
	head := w.x.request.Method == http.MethodHead
	if head && w.sent.Load() {
		if o.Rest != nil {
			o.Rest.Free()
		}
		r.freeGathered()
		o.Release = false
		return w.x.why(r.failed)
	}
	e := o.Ending
	w.precede(r, o)
	if head {
		o.Data.Free()
		o.Data = tarn.Buffer{}
		if o.Rest != nil {
			o.Rest.Free()
		}
		o.Ending = h2.End // nothing follows the header, whatever the handler does
	} else if e == h2.End {
		r.putTrailers(w, o)
	}
	var err error
	if d == later {
		err = w.x.stream.WriteLater(nil, o)
	} else {
		err = w.x.stream.Write(nil, o)
	}
	if err != nil {
		o.Release = false
		r.failed = w.x.why(err)
		return r.failed
	}
	if head && e == h2.More {
		w.x.answered()
	}
	return nil
}

// precede puts what is to be sent before the rest of o into it: the header, unless it has been sent, and what is gathered. mu is held.
func (w *responseWriter) precede(r *response, o *h2.Out) {
	n := r.n
	if o.Rest != nil {
		n += o.Rest.Len()
	}
	if r.n > 0 {
		o.Data = r.gathered.Narrow(0, r.n)
	} else {
		r.gathered.Free()
	}
	r.gathered, r.n = tarn.Buffer{}, 0
	if w.sent.Load() {
		return
	}
	w.sent.Store(true)
	if r.head.needsType && r.head.contentType == "" && n > 0 {
		r.head.contentType = http.DetectContentType(firstBytes(o))
	}
	r.head.put(w, r, o, n)
}

// decided reports whether nothing about the header depends on content that is yet to be read, nor on whether it can be read: the handler
// may answer with an error then, and a response that turns out to be short gets a Content-Length. mu is held.
func (w *responseWriter) decided(r *response) bool {
	return w.sent.Load() || r.head.status != 0 && r.head.length >= 0 && !w.needsSniff(r)
}

// needsSniff reports whether the header waits for the first bytes of content, which tell their type. mu is held.
func (w *responseWriter) needsSniff(r *response) bool {
	return r.head.needsType && r.n == 0 && !w.sent.Load()
}

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

// mostDated is how many bytes a response has at most that counts as ended at its Date: a longer one may wait for the client's window.
const mostDated = 1 << 10

// finish ends the response after the handler has returned. If the next request is one
// of the same connection it leaves the end queued, to be sent together with the next
// response, and reports true. The stream of a request of which all has come is released with the response, because that takes the
// connection's lock once instead of twice.
func (w *responseWriter) finish() (unsent bool) {
	release := w.x.body.detachEnded(errHandlerDone)
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.r
	if r.head.status == 0 {
		r.head.fill(w, r, http.StatusOK)
	}
	dated := !w.sent.Load() && r.n <= mostDated && !r.head.dated.IsZero()
	d := atOnce
	if w.x.conn.engine.workers.Next() == w.x.conn.h2 {
		d = later
	}
	o := h2.Out{Ending: h2.End, Release: release}
	w.send(r, &o, d) // an error means that the client does not wait for it
	w.released = o.Release
	r.counted.status = r.head.status
	if dated {
		r.counted.sentAt = monotonic.Of(r.head.dated)
	}
	w.end() // before another goroutine can use the stream
	return d == later
}

// close is finish for a response that is not ended; after finish it does nothing.
func (w *responseWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

// end ends the use of w and of what it has borrowed. mu is held.
func (w *responseWriter) end() {
	if w.r == nil {
		return
	}
	w.r.clear()
	w.r = nil
}

// inform sends an informational response. mu is held.
func (w *responseWriter) inform(r *response, status int) {
	w.continued = w.continued || status == http.StatusContinue
	fields := append(r.fields[:0], statusField(status))
	for _, f := range r.preset {
		fields = appendKey(fields, f.Key, f.Values)
	}
	fields = appendHeader(fields, r.header)
	r.fields = fields
	w.x.stream.Write(nil, &h2.Out{Fields: fields}) // an error shows on the next write
}

// sendContinue sends 100 Continue unless the handler has sent it or the response has begun.
func (w *responseWriter) sendContinue() {
	if w.sent.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sent.Load() && !w.closed.Load() && !w.continued {
		w.x.stream.Write(nil, &h2.Out{Block: continueBlock})
	}
}

// SetReadDeadline sets when reading the request's body fails with
// os.ErrDeadlineExceeded.
func (w *responseWriter) SetReadDeadline(t time.Time) error {
	if w.closed.Load() {
		panicClosed("SetReadDeadline")
	}
	if !t.IsZero() && !t.After(time.Now()) {
		w.x.readTimeout()
		return nil
	}
	w.x.setDeadline(readDeadline, t, w.x.readTimeout)
	return nil
}

// SetWriteDeadline sets when the stream is reset and writing fails with
// os.ErrDeadlineExceeded.
func (w *responseWriter) SetWriteDeadline(t time.Time) error {
	if w.closed.Load() {
		panicClosed("SetWriteDeadline")
	}
	if !t.IsZero() && !t.After(time.Now()) {
		w.x.writeTimeout()
		return nil
	}
	w.x.setDeadline(writeDeadline, t, w.x.writeTimeout)
	return nil
}

// EnableFullDuplex does nothing: reading and writing are independent in HTTP/2.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// Push returns http.ErrNotSupported.
func (w *responseWriter) Push(string, *http.PushOptions) error { return http.ErrNotSupported }

// CloseNotify returns a channel that receives when the request's context ends.
func (w *responseWriter) CloseNotify() <-chan bool {
	if w.closed.Load() {
		panicClosed("CloseNotify")
	}
	ch := make(chan bool, 1)
	w.x.ctx.AfterFunc(func() { ch <- true })
	return ch
}

// bodyAllowed reports whether a response of this status has content (RFC 9110 section
// 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
