package h2http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// requestBody is the state of sending a request's body. The body is the caller's own code, which may block: it is read and closed
// by goroutines for which neither the caller of RoundTrip nor the connection waits.
type requestBody struct {
	more     [1]byte     // where the end is looked for behind a declared length
	started  atomic.Bool // reading the body has begun
	unwanted atomic.Bool // the response says that the rest is not wanted

	mu     sync.Mutex
	halt   context.CancelFunc // ends sendKept; nil: that has not begun
	done   chan struct{}      // made by sent
	isSent bool

	closing  bool          // the body's Close has been called
	isClosed bool          // and has returned
	closed   chan struct{} // made by awaitClosed
}

// errBodyTooLong and errBodyTooShort are returned when a request's body is not as long
// as its ContentLength says.
var (
	errBodyTooLong  = errors.New("h2http: the request's body is longer than its ContentLength")
	errBodyTooShort = errors.New("h2http: the request's body is shorter than its ContentLength")
)

// close closes the request's body, once, on a goroutine of its own: Close may wait for a Read.
func (b *requestBody) close(r *http.Request) {
	if b.beginClose(r) {
		go b.closeNow(r)
	}
}

// closeHere closes the request's body, once, on this goroutine, which is the body's own.
func (b *requestBody) closeHere(r *http.Request) {
	if b.beginClose(r) {
		b.closeNow(r)
	}
}

func (b *requestBody) beginClose(r *http.Request) bool {
	b.started.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing || r.Body == nil || r.Body == http.NoBody {
		return false
	}
	b.closing = true
	return true
}

func (b *requestBody) closeNow(r *http.Request) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.isClosed = true; b.closed != nil {
			close(b.closed)
		}
	}()
	r.Body.Close()
}

// awaitClosed waits until Close has returned, if it has been called, or until giveUp is closed; then it
// returns false.
func (b *requestBody) awaitClosed(giveUp <-chan struct{}) bool {
	b.mu.Lock()
	if !b.closing || b.isClosed {
		b.mu.Unlock()
		return true
	}
	if b.closed == nil {
		b.closed = make(chan struct{})
	}
	closed := b.closed
	b.mu.Unlock()
	select {
	case <-closed:
		return true
	case <-giveUp:
		return false
	}
}

// closeGrace is how long the caller waits for a Close that has been called: mostly the body is closed when a method returns, as with
// net/http, which waits without a bound.
const closeGrace = 100 * time.Millisecond

// settle is awaitClosed for at most closeGrace.
func (b *requestBody) settle() {
	giveUp := make(chan struct{})
	timer := time.AfterFunc(closeGrace, func() { close(giveUp) })
	defer timer.Stop()
	b.awaitClosed(giveUp)
}

// sent returns a channel that is closed when the request is sent.
func (b *requestBody) sent() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		if b.isSent {
			close(b.done)
		}
	}
	return b.done
}

// abandon ends sending: the final response is no success, so the rest of the request's
// body is not wanted.
func (b *requestBody) abandon(r *http.Request) {
	b.unwanted.Store(true)
	b.close(r)
	b.mu.Lock()
	halt := b.halt
	b.mu.Unlock()
	if halt != nil {
		halt()
	}
}

// haltBy has abandon call halt, which may be at once.
func (b *requestBody) haltBy(halt context.CancelFunc) {
	b.mu.Lock()
	b.halt = halt
	b.mu.Unlock()
	if b.unwanted.Load() {
		halt()
	}
}

func (b *requestBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isSent = true; b.done != nil {
		close(b.done)
	}
}

// contentLength returns how long a request's body is; -1: not known.
func contentLength(r *http.Request) int64 {
	if r.Body == nil || r.Body == http.NoBody {
		return 0
	}
	if r.ContentLength != 0 {
		return r.ContentLength
	}
	return -1
}

const (
	// inlineBody is the longest body in bytes that is sent together with the header. It is read before the stream is opened, so
	// it must be in memory: GetBody says that it is.
	inlineBody = 64 << 10
	// inlineWait is how long the header waits for a body that is not known to be in memory.
	inlineWait = time.Millisecond
)

// shortBody is a short body that has been read, or why it has not been.
type shortBody struct {
	data tarn.Buffer
	err  error
}

// inline reads a short body for sending it with the header; false: it is to be sent by send, which gets what is being read from x.ahead.
func (x *call) inline(length int64) (_ tarn.Buffer, ok bool, _ error) {
	r := x.request
	if length <= 0 || length > inlineBody || r.GetBody == nil || len(r.Trailer) > 0 || r.Header["Expect"] != nil {
		return tarn.Buffer{}, false, nil
	}
	x.sending.started.Store(true)
	if inMemory(r.Body) {
		b := x.readShort(length)
		return b.data, b.err == nil, b.err
	}
	x.ahead = make(chan shortBody, 1)
	go x.readAhead(length, x.ahead)
	timer := time.NewTimer(inlineWait)
	defer timer.Stop()
	select {
	case b := <-x.ahead:
		x.ahead = nil
		return b.data, b.err == nil, b.err
	case <-r.Context().Done():
		x.freeAhead()
		return tarn.Buffer{}, false, r.Context().Err()
	case <-timer.C:
		return tarn.Buffer{}, false, nil
	}
}

// readAhead is readShort on a goroutine of its own, for inline or send. A panic of the body ends the program, as in net/http, and as
// where send reads it.
func (x *call) readAhead(length int64, ahead chan<- shortBody) {
	b := shortBody{err: errBodyExited}
	defer func() { ahead <- b }()
	b = x.readShort(length)
}

// readShort reads and closes the request's body, which has length bytes.
func (x *call) readShort(length int64) (b shortBody) {
	r := x.request
	defer x.sending.closeHere(r)
	buf := x.conn.pool.mem.Get(int(length))
	defer func() {
		if b.data.IsZero() { // an error, or Read has not returned
			buf.Free()
		}
	}()
	b.err = errBodyExited
	if _, err := io.ReadFull(r.Body, buf.Bytes()); err != nil {
		if b.err = err; err == io.EOF || err == io.ErrUnexpectedEOF {
			b.err = errBodyTooShort
		}
		return b
	}
	var one [1]byte
	if n, _ := r.Body.Read(one[:]); n > 0 {
		b.err = errBodyTooLong
		return b
	}
	return shortBody{data: buf}
}

// freeAhead gives up what is being read ahead: it is freed once Read has returned.
func (x *call) freeAhead() {
	if ahead := x.ahead; ahead != nil {
		x.ahead = nil
		x.sending.close(x.request)
		go func() {
			b := <-ahead
			b.data.Free()
		}()
	}
}

// inMemory reports whether a body is what http.NewRequest makes of a bytes.Buffer, bytes.Reader or strings.Reader, of which neither
// Read nor Close waits. http.Transport wraps it once more.
func inMemory(b io.ReadCloser) bool {
	v := reflect.ValueOf(b)
	if t := v.Type(); t.Kind() == reflect.Pointer && t.Elem().Name() == "readTrackingBody" && t.Elem().PkgPath() == "net/http" {
		v = reflect.ValueOf(v.Elem().Field(0).Interface())
	}
	if v.Type() != nopCloser {
		return false
	}
	switch v.Field(0).Interface().(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}

// nopCloser is the type of what io.NopCloser returns for an io.WriterTo.
var nopCloser = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))

// wrote reports to the trace that the request has been sent.
func (x *call) wrote(err error) {
	x.sending.end()
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.hooks.run(func() { x.trace.WroteRequest(httptrace.WroteRequestInfo{Err: err}) })
	}
}

// send sends the request's body, on a goroutine of its own, which is the body's: everything but the body's Close is done before that
// is called.
func (x *call) send() {
	err := errBodyExited
	defer func() { x.sentBody(err) }()
	if err = x.awaitContinue(); err == nil {
		err = errBodyExited
		err = x.sendBody()
	}
}

// errBodyExited is the error of a request whose body has ended the goroutine that reads it (runtime.Goexit).
var errBodyExited = errors.New("h2http: the request's body has ended its goroutine")

// sentBody ends sending.
func (x *call) sentBody(err error) {
	if err != nil && x.sending.unwanted.Load() {
		err = errStopped // its body has been closed
	}
	x.wrote(err)
	if err != nil && !errors.Is(err, errStopped) {
		x.fail(err)
	}
	x.finished(sending)
	x.sending.closeHere(x.request)
}

// sendKept sends a body that inline has read and that Open has left, on a goroutine of its own. It takes ownership of b.
func (x *call) sendKept(b tarn.Buffer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x.sending.haltBy(cancel)
	err := x.write(ctx, &h2.Out{Data: b, Ending: h2.End})
	x.wrote(err)
	x.finished(sending)
}

// errStopped ends sending when the stream has ended: the call has the reason.
var errStopped = errors.New("h2http: the stream has ended")

// awaitContinue waits for 100 Continue, if the request asks for that, or until
// ExpectContinueTimeout.
func (x *call) awaitContinue() error {
	if x.continued == nil {
		return nil
	}
	if x.trace != nil && x.trace.Wait100Continue != nil {
		x.hooks.run(x.trace.Wait100Continue)
	}
	timer := time.NewTimer(x.conn.pool.continueTimeout)
	defer timer.Stop()
	select {
	case <-x.continued: // or the final response, or the end
		if x.sending.unwanted.Load() {
			return errStopped
		}
	case <-timer.C:
	}
	return nil
}

// expects reports whether the body waits for 100 Continue.
func (x *call) expects() bool {
	return x.conn.pool.continueTimeout > 0 && httpguts.HeaderValuesContainsToken(x.request.Header["Expect"], "100-continue")
}

// sendBody sends the body and the trailers.
func (x *call) sendBody() error {
	r := x.request
	x.sending.started.Store(true)
	if x.ahead != nil {
		b := <-x.ahead
		if b.err != nil {
			return b.err
		}
		return x.write(context.Background(), &h2.Out{Data: b.data, Ending: h2.End})
	}
	if b, ok := r.Body.(*body); ok {
		return x.sendChain(b)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return x.sendEnd(nil)
	}
	left := contentLength(r)
	declared := left > 0
	for piece := pieceSize; ; {
		size := piece
		if declared {
			size = int(min(int64(piece)-1, left)) + 1 // a byte more shows a body that is too long
		}
		buf := x.conn.pool.mem.Get(size)
		n, err := r.Body.Read(buf.Bytes())
		piece = nextPiece(piece, n)
		if declared && int64(n) == left && err == nil && len(r.Trailer) == 0 {
			m := 0 // or the end, which the last bytes' frame is to carry, as with net/http
			m, err = r.Body.Read(x.sending.more[:])
			left -= int64(m)
		}
		if declared {
			if left -= int64(n); left < 0 {
				buf.Free()
				return errBodyTooLong
			}
		}
		o := h2.Out{}
		switch {
		case err == io.EOF && declared && left > 0:
			buf.Free()
			return errBodyTooShort
		case err == io.EOF && len(r.Trailer) == 0:
			o.Ending = h2.End
		case err != nil && err != io.EOF:
			buf.Free()
			return err
		}
		if n > 0 {
			o.Data = buf.Narrow(0, n)
		} else {
			buf.Free()
		}
		if n > 0 || o.Ending == h2.End {
			if err := x.write(nil, &o); err != nil {
				return err
			}
		}
		if err == io.EOF {
			if o.Ending == h2.End {
				return nil
			}
			return x.sendEnd(nil)
		}
	}
}

// sendChain sends a body that this package has received, by reference, and the trailers. Of a declared length the last bytes are
// sent together with the end.
func (x *call) sendChain(b *body) error {
	var c tarn.Chain
	defer func() { c.Free() }()
	left := contentLength(x.request)
	declared := left > 0
	for {
		had := c.Len()
		err := b.next(&c)
		left -= int64(c.Len() - had)
		switch {
		case declared && left < 0:
			return errBodyTooLong
		case err == io.EOF && declared && left > 0:
			return errBodyTooShort
		case err == io.EOF:
			return x.sendEnd(&c)
		case err != nil:
			return err
		case declared && left == 0:
			continue
		}
		if err := x.write(nil, &h2.Out{Rest: &c}); err != nil {
			return err
		}
	}
}

// sendEnd sends c (nil: nothing), which is left empty, and ends the request, with its trailers.
func (x *call) sendEnd(c *tarn.Chain) error {
	trailers := appendHeader(nil, x.request.Trailer)
	if err := x.fits(trailers); err != nil {
		return err
	}
	return x.write(nil, &h2.Out{Rest: c, Trailers: trailers, Ending: h2.End})
}
