package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// webClientStream is a streaming call in another protocol than gRPC. Its end is decided once, in finish,
// which ends the request's context and with it every read and write.
type webClientStream struct {
	call
	desc   *grpc.StreamDesc
	x      *webExchange
	ctx    context.Context // the request's
	cancel func()
	stop   func() bool // ends the watch on the call's context

	sendMu sync.Mutex
	closed bool // the caller has half-closed
	upload *io.PipeWriter

	answered chan struct{} // closed when the header has been received, or will not be
	failed   error         // set before that

	recvMu sync.Mutex // held while the response is read

	mu     sync.Mutex
	over   bool
	result error // the call's error, once it has ended; nil: OK
}

var _ grpc.ClientStream = (*webClientStream)(nil)

// newStream begins a streaming call in another protocol than gRPC.
func (w *webClient) newStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts callOptions) (grpc.ClientStream, error) {
	cs := &webClientStream{desc: desc, answered: make(chan struct{})}
	err := cs.init(w.cc, ctx, method, opts)
	if err != nil {
		cs.report(nil, err)
		return nil, err
	}
	cs.retry.count()
	k := kindOf(desc)
	cs.x = w.exchange(&cs.call, k)
	if cs.statsOn() {
		cs.statsBegin(k)
	}
	cs.ctx, cs.cancel = w.context(&cs.call)
	if desc.ClientStreams {
		body, upload := io.Pipe()
		cs.upload = upload
		err = cs.begin(func(r *http.Request) { r.Body, r.ContentLength = body, -1 }, func() {})
	}
	if err != nil {
		cs.finish(err)
		return nil, err
	}
	cs.mu.Lock()
	cs.stop = context.AfterFunc(cs.ctx, func() { cs.finish(cs.x.failure(cs.ctx.Err())) })
	cs.mu.Unlock()
	return cs, nil
}

// begin sends the request, whose body set sets, and starts receiving the response; sent is called when the
// transport does not need the body any more. sendMu is held, or no other goroutine has the stream.
func (cs *webClientStream) begin(set func(*http.Request), sent func()) error {
	begun := false
	defer func() {
		if !begun { // an error, or a hook has panicked
			sent()
		}
	}()
	r, err := cs.x.request(cs.ctx)
	if err != nil {
		cs.answer(err)
		return err
	}
	begun = true
	set(r)
	go func() {
		err := cs.x.failure(errExited) // a hook may end the goroutine
		defer func() {
			sent()
			if err != nil {
				r.Body.Close() // a round tripper that has ended the goroutine has not closed it, and SendMsg would wait
			}
			if cs.answer(err) {
				cs.recvMu.Lock()
				cs.x.release()
				cs.recvMu.Unlock()
			}
		}()
		err = cs.sendRequest(r)
	}()
	return nil
}

// sendRequest sends r. HTTP/1.1 cannot carry a bidirectional stream.
func (cs *webClientStream) sendRequest(r *http.Request) error {
	if !cs.desc.ClientStreams || !cs.desc.ServerStreams {
		return cs.x.send(r)
	}
	no := status.Error(codes.Unimplemented, "rpc: a stream in both directions needs HTTP/2, and the connection's protocol is HTTP/1.1")
	if conns := cs.x.conns; conns != nil {
		v, made, err := conns.find(cs.ctx)
		defer conns.discard(made)
		if err == nil && v == http1 {
			err = no
		}
		if err != nil {
			r.Body.Close()
			return cs.x.failure(err)
		}
	}
	if err := cs.x.send(r); err != nil {
		return err
	}
	if cs.x.res.ProtoMajor < 2 && cs.x.status == nil {
		return no
	}
	return nil
}

// answer records that the header has been received or, with an error, that it will not be. It reports whether
// the stream has ended meanwhile: then the caller must release the response.
func (cs *webClientStream) answer(err error) (over bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.failed = err
	close(cs.answered)
	return cs.over
}

// SendMsg sends one message: it returns when the transport has read it. A *tarn.Chain or *tarn.Buffer is sent
// as it is and emptied. io.EOF means that the call has ended: RecvMsg returns the error.
func (cs *webClientStream) SendMsg(v any) error {
	m, info, err := cs.x.encode(v)
	if err != nil {
		cs.finish(err)
		return err
	}
	err = cs.sendMessage(m)
	if err != nil && !errors.Is(err, io.EOF) {
		cs.finish(err)
	}
	switch {
	case err != nil || !cs.statsOn():
	case cs.upload == nil:
		cs.x.statsOnly(v, info)
	default:
		cs.x.awaitConn(cs.ctx)
		cs.x.statsOut()
		cs.statsOutPayload(cs.statsContext(), v, info)
	}
	return err
}

// sendMessage takes ownership of m. An error other than io.EOF ends the call.
func (cs *webClientStream) sendMessage(m message.Message) error {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock() // also if a hook panics
	if cs.closed {
		m.Free()
		return errClosed // an incorrect use of the stream
	}
	if cs.upload == nil {
		cs.closed = true
		cs.x.upload = &requestMessage{m: m}
		return cs.begin(cs.x.upload.set, func() { cs.x.upload.end(cs.x.conns) })
	}
	defer m.Free()
	var err error
	if m.Chain != nil {
		_, err = m.Chain.WriteTo(cs.upload)
	} else {
		_, err = cs.upload.Write(m.Buf.Bytes())
	}
	if err != nil {
		return io.EOF // the response has ended, or the call has
	}
	return nil
}

// CloseSend ends the sequence of requests. It returns nil.
func (cs *webClientStream) CloseSend() error {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	switch {
	case cs.closed:
	case cs.upload != nil && cs.ctx.Err() != nil:
		cs.upload.CloseWithError(errCallOver) // the server must not take the requests for complete
	case cs.upload != nil:
		cs.upload.Close()
	default:
		if err := cs.begin(func(r *http.Request) { r.Body = http.NoBody }, func() {}); err != nil {
			go cs.finish(err)
		}
	}
	cs.closed = true
	return nil
}

// await waits for the response's header, or the call's end.
func (cs *webClientStream) await() error {
	select {
	case <-cs.answered:
		return cs.failed
	default: // a header that was received stays available after the call's end
	}
	select {
	case <-cs.answered:
		return cs.failed
	case <-cs.ctx.Done():
		return cs.x.failure(cs.ctx.Err())
	}
}

// Header waits for the response's header. It is nil, without an error, when the call ended without one;
// RecvMsg then returns the error.
func (cs *webClientStream) Header() (metadata.MD, error) {
	if cs.await() != nil {
		return nil, nil
	}
	return cs.x.header, nil
}

// Trailer is the trailer once RecvMsg has returned an error.
func (cs *webClientStream) Trailer() metadata.MD {
	if cs.outcome() == nil {
		return nil
	}
	cs.recvMu.Lock()
	defer cs.recvMu.Unlock()
	return cs.x.trailer
}

// Context is the call's context, with the peer in it once there is one.
func (cs *webClientStream) Context() context.Context {
	if p := cs.x.server(); p != nil {
		return peer.NewContext(cs.tagged, p)
	}
	return cs.tagged
}

// RecvMsg waits for one message. io.EOF means that the call succeeded; any other error is its status.
func (cs *webClientStream) RecvMsg(v any) error {
	if err := cs.ctx.Err(); err != nil {
		cs.finish(cs.x.failure(err))
	}
	if err := cs.outcome(); err != nil {
		return err
	}
	err := cs.await()
	more := false
	if err == nil {
		more, err = cs.receive(v)
	}
	if more {
		return nil
	}
	cs.finish(err)
	if err == nil && !cs.desc.ServerStreams {
		return nil // the only message; the end after it has been received
	}
	return cs.outcome()
}

// receive reads one message. more is false when the call has ended; err is nil if it succeeded.
func (cs *webClientStream) receive(v any) (more bool, err error) {
	cs.recvMu.Lock()
	defer cs.recvMu.Unlock()
	if err := cs.outcome(); err != nil {
		return false, err
	}
	if !cs.desc.ServerStreams {
		return false, cs.x.reply(v)
	}
	r := cs.x.next()
	switch {
	case errors.Is(r.err, io.EOF):
		return false, nil
	case r.err != nil:
		return false, cs.x.receiveError(&r)
	}
	cs.info.lease.renew() // the message before this one
	if err := cs.x.decode(&r, v); err != nil {
		return false, err
	}
	return true, nil
}

// outcome is the call's error, once it has ended.
func (cs *webClientStream) outcome() error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case !cs.over:
		return nil
	case cs.result == nil:
		return io.EOF
	}
	return cs.result
}

// finish ends the stream, unless it has ended. The response's memory is freed when no RecvMsg uses it any
// more; the end of the request's context makes a running one return.
func (cs *webClientStream) finish(err error) {
	cs.mu.Lock()
	if cs.over {
		cs.mu.Unlock()
		return
	}
	cs.over, cs.result = true, err
	stop := cs.stop
	answered := false
	select {
	case <-cs.answered:
		answered = true
	default:
	}
	cs.mu.Unlock()
	if stop != nil {
		stop()
	}
	cs.cancel()
	if cs.upload != nil {
		cs.upload.CloseWithError(errCallOver)
	}
	cs.recvMu.Lock()
	defer cs.recvMu.Unlock()
	x := cs.x
	if answered {
		x.release()
	} else {
		begun, p := x.reached(), x.server()
		x = &webExchange{web: x.web, call: x.call, out: x.out} // the transport still uses the other
		x.begun.Store(begun)
		if p != nil {
			x.at = *p
		}
	}
	if cs.statsOn() {
		x.statsEnd(err)
	}
	cs.report(x, err)
}
