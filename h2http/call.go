package h2http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// call is one request and its response on a client.
//
// Its stream is used by two: the one that sends, until the request is sent, and the one
// that receives, until the peer has ended. The one that finishes last releases it. A call that is given up or has failed is
// finished with both, whether or not the request's body still is in a Read.
type call struct {
	conn    *clientConn
	request *http.Request
	trace   *httptrace.ClientTrace
	gzip    bool // decompression was asked for by this package
	head    bool // the method is HEAD
	first   bool // of the requests on the connection
	noWait  bool // the request goes elsewhere if the peer permits no further stream

	response http.Response
	body     body // of the response
	sending  requestBody
	ahead    chan shortBody // brings the body that is being read since before the stream was opened; nil: none is
	hooks    *hooks         // of trace; nil: none

	headed    chan struct{} // receives once: the response's header has come, or the call has failed
	continued chan struct{} // receives at 100 Continue and when headed does; nil: not waited for

	woken atomic.Bool // headed has been sent to

	mu          sync.Mutex
	stream      *h2.Stream
	done        direction // what is finished
	released    bool
	writing     bool           // a Write on the stream is under way, which keeps it from being released
	got         *responseShape // of the response; nil: none yet
	extra       []h2.Field     // of the response
	complete    bool           // the response has no content
	err         error          // why the call failed before the header
	unprocessed bool           // and the peer has not processed it
	trailers    http.Header
	informed    int         // bytes of informational responses
	unreported  int         // bytes of those that the trace has yet to be called for
	heard       bool        // a header list has come; used by the connection's goroutine only
	stop        func() bool // ends watching the context; nil: not watched
	onRelease   func()      // called once, when the stream has been released; nil: nothing

	values [6]string // of the response's Header, if they fit
}

// firstOut is what is sent first of a request. It is used until the stream is open.
type firstOut struct {
	h2.Out
	fields [16]h2.Field // the header list, if it fits
}

// release gives o back to the pool, which h2 does not use any more.
func (o *firstOut) release(p *clientPool) {
	*o = firstOut{}
	p.firsts.Put(o)
}

// direction is one or both of what a stream is used for.
type direction uint8

const (
	sending   direction = 1 << iota // by the goroutine that sends the request
	receiving                       // by the connection's
	both      = sending | receiving
)

func newCall(c *clientConn, r *http.Request, trace *httptrace.ClientTrace) *call {
	x := &call{conn: c, request: r, trace: trace, head: r.Method == http.MethodHead}
	if trace != nil {
		x.hooks = new(hooks)
	}
	x.headed = c.pool.signals.Get().(chan struct{})
	x.body.bind(x, nil)
	return x
}

// timeoutError is the text of a net.Error, which http.Transport's errors for timeouts are, too.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// Timeout reports true.
func (timeoutError) Timeout() bool { return true }

// Temporary reports true.
func (timeoutError) Temporary() bool { return true }

const errHeaderTimeout = timeoutError("h2http: timeout awaiting response headers")

// roundTrip sends the request and waits for the response's header. With an error the
// request's body is being closed, unless it has not been touched.
func (x *call) roundTrip() (*http.Response, error) {
	r := x.request
	ctx := r.Context()
	first := x.conn.pool.firsts.Get().(*firstOut)
	if err := x.prepare(first); err != nil {
		first.release(x.conn.pool)
		x.sending.close(r)
		return nil, err
	}
	if x.trace != nil {
		x.traceConn(&first.Out)
	}
	x.first = !x.conn.used.Swap(true)
	ending := first.Ending
	first.NoWait = x.noWait
	x.writing = true // until Open has returned; callbacks may come before
	s, err := x.conn.h2.Open(ctx, x, &first.Out)
	kept := first.Data // what would have waited; sendKept sends it, as the response may come before there is room for it
	first.release(x.conn.pool)
	if err != nil {
		x.released = true // by Open
		x.freeAhead()
		x.hooks.wait(ctx)
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			if failure := x.conn.earlyFailure(ctx); failure != nil {
				return nil, failure
			}
			x.unprocessed = !errors.As(err, new(*h2.GoAwayError)) || x.isUnprocessed(err)
			if !errors.Is(err, h2.ErrStreamLimit) {
				x.conn.group.remove(x.conn)
			}
		}
		return nil, err
	}
	x.mu.Lock()
	x.bound(s)
	x.writing = false
	x.settle()
	if x.trace != nil && x.trace.WroteHeaders != nil {
		x.hooks.run(x.trace.WroteHeaders)
	}
	if x.conn.pool.singleUse || r.Close || r.Header.Get("Connection") == "close" {
		x.conn.group.remove(x.conn)
		x.conn.h2.Shutdown("")
	}
	switch {
	case !kept.IsZero():
		go x.sendKept(kept)
	case ending == h2.End:
		x.wrote(nil)
		x.finished(sending)
	default:
		go x.send()
	}
	return x.await(ctx)
}

// await waits for the response's header.
func (x *call) await(ctx context.Context) (*http.Response, error) {
	var timeout <-chan time.Time
	headed := x.headed
	if d := x.conn.pool.headerTimeout; d > 0 {
		// The time counts from when the request is sent; with a body that is later than
		// now, and sending ends with the call.
		select {
		case <-x.sending.sent():
		case <-headed:
			headed = nil
		case <-ctx.Done():
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	if headed != nil && timeout == nil && ctx.Done() == nil {
		<-headed // a select costs more
	} else if headed != nil {
		select {
		case <-headed:
		case <-ctx.Done():
			x.abandon(ctx.Err())
			x.body.unwanted()
			return nil, ctx.Err()
		case <-timeout:
			x.abandon(errHeaderTimeout)
			x.body.unwanted()
			return nil, errHeaderTimeout
		}
	}
	x.conn.pool.signals.Put(x.headed) // nothing is sent to it any more
	x.mu.Lock()
	if err := x.err; err != nil {
		x.mu.Unlock()
		x.body.unwanted() // a response may have come before the hook that has failed
		x.sending.close(x.request)
		return nil, err
	}
	if ctx.Done() != nil && x.done != both {
		x.stop = context.AfterFunc(ctx, func() { x.abandon(ctx.Err()) })
	}
	x.mu.Unlock()
	return x.respond(), nil
}

// bind sets the stream of x, which a callback may do before Open returns.
func (x *call) bind(s *h2.Stream) {
	x.mu.Lock()
	x.bound(s)
	x.mu.Unlock()
}

// bound is bind. x.mu is held.
func (x *call) bound(s *h2.Stream) {
	if x.stream == nil {
		x.stream = s
		x.body.mu.Lock()
		x.body.stream = s
		x.body.mu.Unlock()
	}
}

// finished notes that d does not use the stream any more, and releases it after both.
func (x *call) finished(d direction) {
	x.mu.Lock()
	x.done |= d
	x.settle()
}

// settle releases the stream if nothing uses it any more. x.mu is held; settle unlocks it.
func (x *call) settle() {
	last := x.done == both && !x.released && !x.writing && x.stream != nil
	if last {
		x.released = true
	}
	s, stop := x.stream, x.stop
	x.mu.Unlock()
	if last {
		if stop != nil {
			stop()
		}
		x.body.unbind()
		s.Release()
		x.callWhenReleased()
	}
}

// write sends o, which it takes ownership of, unless the call is over. The error is errStopped: the call has the reason.
func (x *call) write(ctx context.Context, o *h2.Out) error {
	x.mu.Lock()
	if x.done&sending != 0 {
		x.mu.Unlock()
		o.Data.Free()
		if o.Rest != nil {
			o.Rest.Free()
		}
		return errStopped
	}
	x.writing = true
	x.mu.Unlock()
	err := x.stream.Write(ctx, o)
	x.mu.Lock()
	x.writing = false
	x.settle()
	if err != nil {
		return errStopped
	}
	return nil
}

// callWhenReleased calls x.onRelease, unless a stream is still in use.
func (x *call) callWhenReleased() {
	x.mu.Lock()
	f := x.onRelease
	if x.stream != nil && !x.released {
		f = nil
	} else {
		x.onRelease = nil
	}
	x.mu.Unlock()
	if f != nil {
		f()
	}
}

// whenReleased has f called once the stream has been released, which may be at once.
func (x *call) whenReleased(f func()) {
	x.mu.Lock()
	released := x.released
	if !released {
		x.onRelease = f
	}
	x.mu.Unlock()
	if released {
		f()
	}
}

// abandon gives the call up because of err: the stream is reset, and both the
// response's body and the request's end.
func (x *call) abandon(err error) {
	x.mu.Lock()
	if !x.released && x.stream != nil {
		x.stream.Reset(h2.Cancel)
	}
	x.mu.Unlock()
	x.body.end(err)
	x.sending.close(x.request)
	x.finished(both)
}

// fail gives the call up because of err, which this side has found.
func (x *call) fail(err error) {
	x.mu.Lock()
	if !x.released && x.stream != nil {
		x.stream.Reset(h2.Cancel)
	}
	x.mu.Unlock()
	x.onReset(err)
}

// beforeRead does nothing.
func (x *call) beforeRead() {}

// bodyClosed gives up what the caller does not want to read, and what is left to send.
func (x *call) bodyClosed() {
	x.mu.Lock()
	released := x.released
	x.mu.Unlock()
	if !released {
		x.abandon(http.ErrBodyReadAfterClose)
		x.sending.settle()
	}
}

// memory is the Transport's.
func (x *call) memory() *tarn.Pool { return x.conn.pool.mem }

// onHeaders takes the response's header, or its trailers.
func (x *call) onHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	x.mu.Lock()
	x.bound(s)
	if x.got != nil {
		x.mu.Unlock()
		x.onTrailers(h)
		return
	}
	s.IgnoreLength() // the body says what is missing, after what has come
	if n, ok := h.Get("content-length"); ok && !x.head && e != h2.End {
		if n, err := strconv.ParseUint(n, 10, 63); err == nil {
			x.body.expect(int64(n))
		}
	}
	x.got = responseShapeOf(h)
	if len(h.Extra) > 0 {
		x.extra = slices.Clone(h.Extra)
	}
	x.complete = e == h2.End
	if h.Status > 299 && x.done&sending == 0 && x.request.Body != nil && x.request.Body != http.NoBody {
		x.sending.abandon(x.request)
	}
	x.mu.Unlock()
	x.firstByte()
	if e == h2.End {
		x.body.end(io.EOF)
		x.finished(receiving)
	}
	x.conn.headed = append(x.conn.headed, x)
}

// wake wakes the caller, once the hooks have returned that were to be called before.
func (x *call) wake() {
	if x.hooks == nil {
		x.wakeNow()
		return
	}
	x.hooks.after(x.wakeNow)
}

func (x *call) wakeNow() {
	if x.woken.CompareAndSwap(false, true) {
		x.headed <- struct{}{} // has room for it
		x.goOn()
	}
}

// goOn wakes the goroutine that waits for 100 Continue, or for the end, to send the body. It does not block.
func (x *call) goOn() {
	select {
	case x.continued <- struct{}{}:
	default:
	}
}

func (x *call) onTrailers(h *h2.Header) {
	t := make(http.Header)
	for _, fields := range [][]h2.Field{h.Fields, h.Extra} {
		for _, f := range fields {
			key := canonicalName(f.Name)
			t[key] = append(t[key], f.Value)
		}
	}
	x.body.mu.Lock()
	x.trailers = t
	x.body.onEOF = x.trailersRead
	x.body.mu.Unlock()
	x.body.end(io.EOF)
	x.finished(receiving)
}

// trailersRead makes the trailers visible, on the goroutine that has read the body.
func (x *call) trailersRead() {
	if x.response.Trailer == nil {
		x.response.Trailer = make(http.Header, len(x.trailers))
	}
	for key, values := range x.trailers {
		x.response.Trailer[key] = values
	}
}

// firstByte reports the first header list that comes to the trace. It is called on the
// connection's goroutine.
func (x *call) firstByte() {
	if !x.heard && x.trace != nil && x.trace.GotFirstResponseByte != nil {
		x.hooks.run(x.trace.GotFirstResponseByte)
	}
	x.heard = true
}

// onInformational passes an informational response to the request's trace.
func (x *call) onInformational(s *h2.Stream, h *h2.Header) {
	x.bind(s)
	x.firstByte()
	if x.trace != nil && x.trace.Got1xxResponse != nil {
		m := make(textproto.MIMEHeader)
		for _, fields := range [][]h2.Field{h.Fields, h.Extra} {
			for _, f := range fields {
				if f.Name != "trailer" { // as net/http
					m.Add(canonicalName(f.Name), f.Value)
				}
			}
		}
		status, size := h.Status, informationalSize(h)
		if !x.awaitReports(size) {
			x.fail(errLongInformational)
			return
		}
		x.hooks.run(func() {
			err := x.trace.Got1xxResponse(status, m)
			x.addUnreported(-size)
			x.mu.Lock()
			if err != nil && x.err == nil {
				x.err = err // also when the response's header has come meanwhile: the caller has not been woken
			}
			x.mu.Unlock()
			if err != nil {
				x.fail(err)
			}
		})
	} else if x.informed += informationalSize(h); x.informed > x.conn.pool.maxInformational() {
		x.fail(errLongInformational)
		return
	}
	if h.Status == http.StatusContinue {
		if x.trace != nil && x.trace.Got100Continue != nil {
			x.hooks.run(x.trace.Got100Continue)
		}
		x.goOn()
	}
}

// maxReportWait is how long the connection's goroutine waits for Got1xxResponse while more waits to be reported than
// MaxResponseHeaderBytes permits: it is called more slowly than responses come, or blocks.
const maxReportWait = time.Second

// awaitReports counts an informational response of size bytes that is to be reported; false: too much waits for that.
func (x *call) awaitReports(size int) bool {
	if x.addUnreported(size) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxReportWait)
	defer cancel()
	x.hooks.wait(ctx)
	return x.addUnreported(0)
}

func (x *call) addUnreported(size int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unreported += size
	return x.unreported <= x.conn.pool.maxInformational()
}

var errLongInformational = errors.New("h2http: informational response headers exceeded MaxResponseHeaderBytes")

func informationalSize(h *h2.Header) int {
	n := perField
	for _, fields := range [][]h2.Field{h.Fields, h.Extra} {
		for _, f := range fields {
			n += len(f.Name) + len(f.Value) + perField
		}
	}
	return n
}

func (p *clientPool) maxInformational() int {
	if p.maxHeader > 0 {
		return int(min(p.maxHeader, maxHeaderList))
	}
	return defaultResponseHeader
}

// onReset ends the call early. It is called on the connection's goroutine, or with a
// failure of this side.
func (x *call) onReset(err error) {
	x.mu.Lock()
	waiting := x.got == nil && x.err == nil
	if waiting {
		x.err = err
		x.unprocessed = x.isUnprocessed(err)
	}
	x.mu.Unlock()
	x.body.end(err)
	x.finished(both)
	if x.sending.started.Load() {
		x.sending.close(x.request)
	}
	x.wake()
}
