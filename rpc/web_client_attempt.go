package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// webAttempt is an attempt of a streaming call over HTTP: an exchange, of which a goroutine of its own sends the request and receives the
// response up to its first frame. Connect, and often gRPC-Web, have the status of a failed call in that frame, behind a header that says
// nothing. So the attempt is answered with its first message, or when the caller asks for the header before that.
type webAttempt struct {
	x      *webExchange
	ctx    context.Context // the request's; nil until it is begun
	cancel func()
	upload *io.PipeWriter // nil: the request has been given as a whole

	reading sync.Mutex // held while the response is read or released; taken before mu
	first   received   // the first frame, if waiting; under reading
	waiting bool       // first has not been taken; under reading

	mu             sync.Mutex
	gate           gate
	responded      bool       // the round tripper has returned
	header         *webHeader // nil until it is received, and in a response that consists of its status
	headerReported bool       // the statistics handlers have been called for it
	framed         bool       // the first frame has come
	shown          bool       // the caller may have seen something of the response
	over           bool       // status, seen and trailer are set
	released       bool
	status         *status.Status // nil: OK
	seen           progress
	trailer        metadata.MD
}

// connect implements attempt: the round tripper finds a connection.
func (a *webAttempt) connect(*call) error { return nil }

// open implements attempt.
func (a *webAttempt) open(c *call, out h2.Out) (progress, error) {
	defer freeOut(&out)
	ctx, cancel := a.x.web.context(c)
	begun := false
	defer func() {
		if !begun { // an error, or a hook has panicked
			cancel()
		}
	}()
	r, err := a.x.request(ctx)
	if err != nil {
		a.finish(status.Convert(err), maybeProcessed, nil)
		return maybeProcessed, err
	}
	switch {
	case out.Ending != h2.End:
		var body *io.PipeReader
		body, a.upload = io.Pipe()
		r.Body, r.ContentLength = body, -1
	case out.Data.Len() > 0 || out.Rest != nil:
		body := &requestMessage{m: message.Message{Buf: out.Data, Chain: out.Rest}}
		out.Data, out.Rest = tarn.Buffer{}, nil
		body.set(r)
		a.x.upload = body
	default:
		r.Body = http.NoBody
	}
	begun = true
	a.ctx, a.cancel = ctx, cancel
	go a.exchange(r)
	return maybeProcessed, nil
}

// exchange sends r and receives the response up to its first frame.
func (a *webAttempt) exchange(r *http.Request) {
	err := a.x.failure(errExited) // a function of the application's may end the goroutine
	defer func() {
		switch upload := a.x.upload; {
		case upload == nil:
		case err != nil:
			upload.end(a.x.conns)
		default:
			upload.free() // the round tripper may be reading the body after the response's header; release ends that
		}
		if err != nil {
			r.Body.Close() // a round tripper that has ended the goroutine has not closed it, and SendMsg would wait
		}
		a.respond(err)
	}()
	err = a.send(r)
}

// send sends r. HTTP/1.1 cannot carry a bidirectional stream.
func (a *webAttempt) send(r *http.Request) error {
	x := a.x
	if x.kind != (kind{client: true, server: true}) {
		return x.send(r)
	}
	no := status.Error(codes.Unimplemented, "rpc: a stream in both directions needs HTTP/2, and the connection's protocol is HTTP/1.1")
	if conns := x.conns; conns != nil {
		v, made, err := conns.find(a.ctx)
		defer conns.discard(made)
		if err != nil {
			return x.notSent(err)
		}
		if v == http1 {
			return x.failure(no)
		}
	}
	if err := x.send(r); err != nil {
		return err
	}
	if x.res.ProtoMajor < 2 && x.status == nil {
		return no
	}
	return nil
}

// respond receives the first frame of a response; with an error there is none. It releases the exchange if the attempt has been released
// meanwhile.
func (a *webAttempt) respond(err error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	if err != nil {
		a.finish(status.Convert(err), a.x.seen, nil)
	}
	a.mu.Lock()
	a.responded = true
	released := a.released
	if err == nil && a.x.header != nil {
		a.header = a.x.receivedHeader()
		if !a.x.ended {
			a.gate.announce(headerEvent)
		}
	}
	a.mu.Unlock()
	if released {
		a.x.release()
		return
	}
	if err != nil {
		return
	}
	r := a.read()
	if r.err == io.EOF || r.err == errStatus {
		return
	}
	a.first, a.waiting = r, true
	a.mu.Lock()
	a.framed = true
	a.gate.announce(messageEvent)
	a.mu.Unlock()
}

// read reads a frame. A message, or the refusal of one, answers the attempt; anything else ends it. reading is held.
func (a *webAttempt) read() received {
	r := a.x.next()
	switch {
	case r.err == nil, r.refused():
		if a.show() {
			return r
		}
		r.msg.Free() // the attempt has been ended
	case errors.Is(r.err, io.EOF), errors.Is(r.err, errStatus):
		a.finish(a.x.status, maybeProcessed, a.x.trailer)
	default:
		a.finish(status.Convert(a.x.failure(r.err)), maybeProcessed, nil)
	}
	return a.last()
}

// show answers the attempt; false: it has ended.
func (a *webAttempt) show() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = a.shown || !a.over
	return !a.over
}

// finish ends the attempt, unless it has ended.
func (a *webAttempt) finish(st *status.Status, seen progress, trailer metadata.MD) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.over, a.status, a.seen, a.trailer = true, st, seen, trailer
	a.gate.announce(headerEvent | messageEvent | endEvent)
}

// last is what next returns at the end.
func (a *webAttempt) last() received {
	if st, _ := a.ended(); st != nil {
		return received{err: errStatus}
	}
	return received{err: io.EOF}
}

// next implements attempt.
func (a *webAttempt) next() received {
	a.mu.Lock()
	for !a.framed && !a.over {
		a.gate.wait(&a.mu, messageEvent|endEvent, nil)
	}
	a.mu.Unlock()
	a.reading.Lock()
	defer a.reading.Unlock()
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	switch {
	case over:
		return a.last()
	case a.waiting:
		r := a.first
		a.first, a.waiting = received{}, false
		return r
	}
	return a.read()
}

// write implements attempt: it returns when the round tripper has read out.
func (a *webAttempt) write(_ context.Context, out h2.Out) (err error) {
	defer freeOut(&out)
	if a.upload == nil {
		return io.ErrClosedPipe
	}
	if out.Data.Len() > 0 {
		_, err = a.upload.Write(out.Data.Bytes())
	}
	if err == nil && out.Rest != nil {
		_, err = out.Rest.WriteTo(a.upload)
	}
	if err == nil && out.Ending == h2.End {
		err = a.ctx.Err() // the server must not take the requests of a cancelled call for complete
		a.upload.CloseWithError(err)
	}
	return err
}

// interrupt implements attempt.
func (a *webAttempt) interrupt() {
	if a.upload != nil {
		a.upload.CloseWithError(errCallOver)
	}
}

// waitHeader implements attempt. An attempt that ended before the caller asked for its header is not answered with it.
func (a *webAttempt) waitHeader(done <-chan struct{}) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.header == nil && !a.over && a.gate.wait(&a.mu, headerEvent|endEvent, done) {
	}
	a.shown = a.shown || a.header != nil && (!a.over || a.status == nil)
	return a.shown && a.header != nil
}

// waitEnd implements attempt.
func (a *webAttempt) waitEnd(done <-chan struct{}) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.framed && !a.over {
		if !a.gate.wait(&a.mu, messageEvent|endEvent, done) {
			return false
		}
	}
	return true
}

// refusal implements attempt.
func (a *webAttempt) refusal(r received, limit int) error {
	return r.status(limit, a.x.in.responses())
}

// decompressor implements attempt.
func (a *webAttempt) decompressor(message.Kind, *callInfo) (encoding.Compressor, error) {
	return a.x.incoming, nil
}

// decoded implements attempt.
func (a *webAttempt) decoded(any) {}

// answered implements attempt.
func (a *webAttempt) answered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown
}

// ended implements attempt.
func (a *webAttempt) ended() (*status.Status, progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status, a.seen
}

// abort implements attempt. The end of the request's context makes a running read return.
func (a *webAttempt) abort(st *status.Status) {
	a.finish(st, maybeProcessed, nil)
	if a.cancel != nil {
		a.cancel()
	}
}

// release implements attempt. A round tripper that has not returned yet is not waited for: the response is released when it does.
func (a *webAttempt) release() {
	a.abort(statusFinished)
	a.interrupt()
	if a.x.upload != nil {
		a.x.upload.end(a.x.conns)
	}
	a.mu.Lock()
	a.released = true
	responded := a.responded
	a.mu.Unlock()
	if !responded {
		return
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.waiting {
		a.first.msg.Free()
		a.waiting = false
	}
	a.x.release()
}

// headerMD implements outcome.
func (a *webAttempt) headerMD() metadata.MD {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.header == nil {
		return nil
	}
	return a.header.md
}

// trailerMD implements outcome.
func (a *webAttempt) trailerMD() metadata.MD {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trailer
}

// received implements outcome.
func (a *webAttempt) received() (trailer metadata.MD, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trailer, a.trailer != nil || a.header != nil && a.header.md != nil
}

// server implements outcome.
func (a *webAttempt) server() *peer.Peer { return a.x.server() }

// reached implements outcome.
func (a *webAttempt) reached() bool { return a.x.reached() }

// statsSent implements attempt. A message that is the whole request is reported with the header, and another when its connection is known.
func (a *webAttempt) statsSent(*call) func(any, payloadInfo) {
	if a.upload == nil {
		return a.x.statsOnly
	}
	return func(v any, info payloadInfo) {
		a.x.awaitConn(a.ctx)
		a.x.statsOut()
		a.x.statsMessage(v, info)
	}
}

// statsInHeader implements attempt.
func (a *webAttempt) statsInHeader(*call) {
	a.mu.Lock()
	h := a.header
	if a.headerReported {
		h = nil
	}
	a.headerReported = a.header != nil
	a.mu.Unlock()
	a.x.statsIn(h)
}

// statsEnd implements attempt.
func (a *webAttempt) statsEnd(c *call, err error) {
	a.x.statsOutOver()
	a.statsInHeader(c)
	c.statsEnded(a.trailerMD(), 0, err)
}
