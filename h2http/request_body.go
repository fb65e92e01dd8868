package h2http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// requestBody is the state of sending a request's body.
type requestBody struct {
	more    [1]byte     // where the end is looked for behind a declared length
	started atomic.Bool // reading the body has begun
	refused atomic.Bool // the response says that the rest is not wanted
	once    sync.Once   // closes the body

	mu     sync.Mutex
	halt   context.CancelFunc // ends sendKept; nil: that has not begun
	done   chan struct{}      // made by sent
	isSent bool
}

// errBodyTooLong and errBodyTooShort are returned when a request's body is not as long
// as its ContentLength says.
var (
	errBodyTooLong  = errors.New("h2http: the request's body is longer than its ContentLength")
	errBodyTooShort = errors.New("h2http: the request's body is shorter than its ContentLength")
)

// close closes the request's body, once.
func (b *requestBody) close(r *http.Request) {
	b.once.Do(func() {
		b.started.Store(true)
		closeBody(r)
	})
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

// refuse ends sending: the final response is no success, so the rest of the request's
// body is not wanted.
func (b *requestBody) refuse(r *http.Request) {
	b.refused.Store(true)
	go b.close(r) // it may wait for its reader
	b.mu.Lock()
	halt := b.halt
	b.mu.Unlock()
	if halt != nil {
		halt()
	}
}

// haltBy has refuse call halt, which may be at once.
func (b *requestBody) haltBy(halt context.CancelFunc) {
	b.mu.Lock()
	b.halt = halt
	b.mu.Unlock()
	if b.refused.Load() {
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

// inlineBody is the longest body in bytes that is sent together with the header. It is
// read before the stream is opened, so it must be in memory: GetBody says that it is.
const inlineBody = 64 << 10

// inline reads a short body for sending it with the header; false: it is to be sent by
// send.
func (x *call) inline(length int64) (_ tarn.Buffer, ok bool, _ error) {
	r := x.request
	if length <= 0 || length > inlineBody || r.GetBody == nil || len(r.Trailer) > 0 || r.Header["Expect"] != nil {
		return tarn.Buffer{}, false, nil
	}
	x.sending.started.Store(true)
	defer x.sending.close(r)
	ctx := r.Context()
	if ctx.Done() != nil { // the body may be wrapped in something that waits
		stop := context.AfterFunc(ctx, func() { x.sending.close(r) })
		defer stop()
	}
	buf := x.conn.pool.mem.Get(int(length))
	defer func() {
		if !ok { // an error, or the body has panicked, which the caller may recover
			buf.Free()
		}
	}()
	if _, err := io.ReadFull(r.Body, buf.Bytes()); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errBodyTooShort
		}
		return tarn.Buffer{}, false, err
	}
	var one [1]byte
	if n, _ := r.Body.Read(one[:]); n > 0 {
		return tarn.Buffer{}, false, errBodyTooLong
	}
	return buf, true, nil
}

// wrote reports to the trace that the request has been sent.
func (x *call) wrote(err error) {
	x.sending.end()
	if x.trace != nil && x.trace.WroteRequest != nil {
		x.trace.WroteRequest(traceWrote(err))
	}
}

// send sends the request's body, on a goroutine of its own.
func (x *call) send() {
	err := x.awaitContinue()
	if err == nil {
		err = x.sendBody()
	}
	if err != nil && x.sending.refused.Load() {
		err = errStopped // its body has been closed
	}
	x.sending.close(x.request)
	x.wrote(err)
	if err != nil && !errors.Is(err, errStopped) {
		x.mu.Lock()
		if !x.released {
			x.stream.Reset(h2.Cancel)
		}
		x.mu.Unlock()
		x.onReset(err)
	}
	x.finished(sending)
}

// sendKept sends a body that inline has read and that Open has left, on a goroutine of its own. It takes ownership of b.
func (x *call) sendKept(b tarn.Buffer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x.sending.haltBy(cancel)
	err := x.stream.Write(ctx, &h2.Out{Data: b, Ending: h2.End})
	if err != nil {
		err = errStopped
	}
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
		x.trace.Wait100Continue()
	}
	timer := time.NewTimer(x.conn.pool.continueTimeout)
	defer timer.Stop()
	select {
	case <-x.continued: // or the final response, or the end
		if x.sending.refused.Load() {
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
			if x.stream.Write(nil, &o) != nil {
				return errStopped
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
		if x.stream.Write(nil, &h2.Out{Rest: &c}) != nil {
			return errStopped
		}
	}
}

// sendEnd sends c (nil: nothing), which is left empty, and ends the request, with its trailers.
func (x *call) sendEnd(c *tarn.Chain) error {
	trailers := appendHeader(nil, x.request.Trailer)
	if err := x.fits(trailers); err != nil {
		return err
	}
	if x.stream.Write(nil, &h2.Out{Rest: c, Trailers: trailers, Ending: h2.End}) != nil {
		return errStopped
	}
	return nil
}
