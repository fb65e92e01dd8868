package h2http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/monotonic"
	"github.com/tarn-go/tarn/internal/workers"
)

// exchange is one request and its response on a server. It is never used again, since
// handlers may keep its Request, its context, its body and its ResponseWriter. What is of no use once the
// handler has returned is elsewhere and is used again: the response's state (response) and the
// content that waits to be read (spareChains). The exchange then has no reference to them, so that what
// a handler has kept cannot reach another exchange.
//
// Its stream is released by serve, once the handler has returned. Callbacks for the
// stream may come until then.
type exchange struct {
	workers.Link[*exchange]
	conn     *serverConn
	stream   *h2.Stream
	request  http.Request
	url      url.URL // the request's
	ctx      streamContext
	body     body
	w        responseWriter
	handle   h2.Handle         // of stream, for timers
	began    monotonic.Instant // 0: it is not counted
	expects  bool              // the client waits for 100 Continue
	tooLong  bool              // the header list is longer than permitted
	returned bool              // the handler has returned. mu guards it

	mu     sync.Mutex
	ended  error                   // why the stream ended early; nil: it has not
	timers *[deadlines]*time.Timer // nil: no deadline has been set

	fields fields.List // of the request until its Header is made, of which it has the values then, if they fit
}

// errHandlerDone is returned for use of a body or a ResponseWriter after the handler has
// returned.
var errHandlerDone = errors.New("h2http: the handler has returned")

// newExchange makes the exchange of a request. It returns nil when the request is
// malformed; its stream is then reset and released.
func newExchange(c *serverConn, s *h2.Stream, h *h2.Header, e h2.Ending) *exchange {
	shape := shapeOf(h)
	x := &exchange{conn: c, stream: s, tooLong: h.Truncated}
	var header http.Header
	traits, listed := traits{}, false
	if c.needsNoHeader() {
		traits, listed = shape.list(h.Extra, &x.fields)
	}
	if !listed {
		header, traits = shape.header(h.Extra, x.fields.Own[:0])
	}
	if traits.bad != "" && !h.Truncated {
		countError(c.engine.srv.HTTP2, streamError(h2.ProtocolError))
		s.Reset(h2.ProtocolError)
		s.Release()
		return nil
	}
	x.ctx.parent = c.ctx
	x.expects = traits.expects
	if traits.proxied && !c.proxied {
		c.proxied = true
		c.h2.IgnorePriority()
	}
	if p := traits.priority; p != "" { // ignored after IgnorePriority
		s.SetInitialPriority(h2.ParsePriority(p))
	}
	x.handle = s.Handle()
	x.body.bind(x, s)
	x.w.x = x
	x.url = shape.url // a copy: handlers change it
	r := http.Request{
		Method:     shape.method,
		URL:        &x.url,
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     header,
		Host:       traits.host,
		RemoteAddr: c.remoteAddr,
		RequestURI: shape.uri,
		TLS:        c.tls,
		Trailer:    traits.trailer(),
	}
	if e == h2.End {
		r.Body = http.NoBody
		x.body.err = io.EOF
	} else {
		r.Body = &x.body
		r.ContentLength = traits.length
	}
	x.request = *r.WithContext(&x.ctx)
	return x
}

// headerTooLong answers a request whose header list is longer than permitted.
func headerTooLong(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}

// Conn is the exchange's connection.
func (x *exchange) Conn() *h2.Conn { return x.conn.h2 }

// Exited does nothing: Handle ends the exchange of a handler that ends its goroutine, too.
func (x *exchange) Exited() {}

// Handle runs the handler on w's goroutine and ends the exchange.
func (x *exchange) Handle(w *workers.Worker[*exchange]) (unsent bool) {
	x.stream.Started()
	r := workers.Scratch[response](w)
	r.counted.begin()
	x.w.r = r
	returned := false
	defer func() {
		if !returned {
			v := recover()
			x.endRequest()
			x.panicked(v)
		}
		why := x.finish()
		if x.began != 0 {
			// The mux has set the pattern, unless it was called with a copy of the request.
			how := r.counted.outcome(why)
			name := routeNameOf(x.request.Method, patternOf(&x.request, how))
			r.counted.count(&x.conn.engine.requests, name, x.began, how, x)
		}
	}()
	x.handler().ServeHTTP(&x.w, &x.request)
	x.endRequest()
	unsent = x.w.finish()
	returned = true
	return unsent
}

// handler returns what handles the request, which has its Header, unless the handler does not need it: it may be another one than
// needsNoHeader has seen.
func (x *exchange) handler() http.Handler {
	h := x.conn.handler
	if s, ok := h.(serverHandler); ok {
		h = s.of(&x.request)
	}
	if x.tooLong {
		h = http.HandlerFunc(headerTooLong)
	}
	if x.request.Header == nil && !fields.Suffice(h) {
		x.makeHeader()
	}
	return h
}

// traceparent implements traced.
func (x *exchange) traceparent() string {
	if x.request.Header != nil {
		return x.request.Header.Get("Traceparent")
	}
	if values := x.fields.Get("Traceparent"); len(values) > 0 {
		return values[0]
	}
	return ""
}

// makeHeader makes the request's Header of its fields.
func (x *exchange) makeHeader() {
	l := x.fields // a copy: the Header's values take the place of its strings
	h, values := makeHeader(l.Shared, l.Len/2, x.fields.Own[:0])
	for i := 0; i < l.Len; i += 2 {
		values = put(h, l.Own[i], l.Own[i+1], values)
	}
	x.request.Header = h
}

// panicked resets the stream of a handler that did not return: v is what it panicked
// with; nil: it ended its goroutine.
func (x *exchange) panicked(v any) {
	x.stream.Reset(h2.InternalError)
	if v != nil {
		x.conn.engine.panicked(x.conn.remoteAddr, v)
	}
}

// endRequest ends the request's context and removes its files when the handler has returned, before the response ends, as net/http does.
// The ResponseWriter is closed first: when the context or the response has ended, each of its methods panics.
func (x *exchange) endRequest() {
	x.w.closed.Store(true)
	x.ctx.end(context.Canceled)
	if f := x.request.MultipartForm; f != nil {
		f.RemoveAll()
	}
}

// finish ends what the handler used, and releases the stream, unless that was done with the response. It returns why the stream has
// ended early, if so.
func (x *exchange) finish() error {
	x.w.close()
	why := x.stopTimers()
	if !x.w.released {
		x.body.detach(errHandlerDone)
		x.stream.Release()
	}
	x.conn.exchangeEnded()
	return why
}

// memory is the server's.
func (x *exchange) memory() *tarn.Pool { return x.conn.engine.pool }

// beforeRead sends 100 Continue when the client waits for that (RFC 9110 section
// 10.1.1). It is called on the first read of the body.
func (x *exchange) beforeRead() {
	if x.expects {
		x.w.sendContinue()
	}
}

// bodyClosed does nothing: a client may send on until the response has ended.
func (x *exchange) bodyClosed() {}

// onTrailers takes the request's trailers, of which net/http passes on those that
// were declared. Like net/http it resets the stream when one of them may not be a trailer (RFC 9110 section 6.5.1).
func (x *exchange) onTrailers(s *h2.Stream, h *h2.Header) {
	if x.request.Trailer != nil {
		t := make(http.Header)
		for _, f := range append(h.Fields[:len(h.Fields):len(h.Fields)], h.Extra...) {
			key := canonicalName(f.Name)
			if !httpguts.ValidTrailerHeader(key) {
				countError(x.conn.engine.srv.HTTP2, streamError(h2.ProtocolError))
				x.handle.Reset(h2.ProtocolError) // before the handler, which may end the stream, notices
				x.fail(resetOf(server, s.ID(), &h2.StreamError{Code: h2.ProtocolError, Fault: h2.Peer}))
				return
			}
			t[key] = append(t[key], f.Value)
		}
		x.body.mu.Lock()
		x.body.onEOF = func() { x.trailersRead(t) }
		x.body.mu.Unlock()
	}
	x.body.end(io.EOF)
}

// trailersRead makes the trailers visible, on the goroutine that has read the body.
func (x *exchange) trailersRead(received http.Header) {
	for key, values := range received {
		if _, declared := x.request.Trailer[key]; declared {
			x.request.Trailer[key] = values
		}
	}
}

// fail ends the exchange early, for the handler to notice: its context first, so that it can tell why its reading fails.
func (x *exchange) fail(err error) {
	x.mu.Lock()
	if x.ended == nil {
		x.ended = err
	}
	x.mu.Unlock()
	x.ctx.end(context.Canceled)
	x.body.end(err)
}

// answered ends the request's context and body before the handler has returned, as net/http does: the whole response has been sent.
func (x *exchange) answered() {
	x.body.end(resetOf(server, x.stream.ID(), &h2.StreamError{Code: h2.NoError}))
	x.ctx.end(context.Canceled)
}

// why returns why the stream ended early, else err.
func (x *exchange) why(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended != nil {
		return x.ended
	}
	return err
}

// deadline is one of the two that an exchange can have.
type deadline uint8

const (
	readDeadline deadline = iota
	writeDeadline
	deadlines
)

// setDeadline has f called at the time t; zero: never.
func (x *exchange) setDeadline(d deadline, t time.Time, f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timers == nil {
		if x.returned || t.IsZero() {
			return
		}
		x.timers = new([deadlines]*time.Timer)
	}
	timer := &x.timers[d]
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if x.returned || t.IsZero() {
		return
	}
	*timer = time.AfterFunc(time.Until(t), f)
}

// stopTimers stops the timers when the handler has returned. It returns why the stream has ended early, if so.
func (x *exchange) stopTimers() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.returned = true
	if x.timers == nil {
		return x.ended
	}
	for _, t := range x.timers {
		if t != nil {
			t.Stop()
		}
	}
	return x.ended
}

// readTimeout ends reading the request.
func (x *exchange) readTimeout() {
	x.body.end(fmt.Errorf("h2http: reading the request: %w", os.ErrDeadlineExceeded))
}

// writeTimeout resets the stream, whose handler gets os.ErrDeadlineExceeded.
func (x *exchange) writeTimeout() {
	x.fail(fmt.Errorf("h2http: writing the response: %w", os.ErrDeadlineExceeded))
	x.handle.Reset(h2.InternalError) // nothing happens if the stream has been released
}
