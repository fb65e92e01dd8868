package rpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ownCall is a call that the client itself makes on one connection, for a health check or a producer: one attempt. Nothing that the
// application has set for its calls applies to it: interceptors, service config, default options, policies, statistics, a config selector,
// observation.
type ownCall struct {
	request
	conn *clientConn
	opts callOptions
	a    grpcAttempt
}

// begin sets up the call. Whatever it returns, the call has begun, and end ends it.
func (o *ownCall) begin(c *clientConn, ctx context.Context, method string, opts []grpc.CallOption) error {
	o.request = request{cc: c.cc, ctx: ctx, tagged: ctx, method: method}
	o.conn, o.opts = c, c.cc.passedOn(opts)
	o.info = o.opts.first.info
	bad := o.info.apply(opts)
	c.own.Add(1)
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	o.at, o.deadline = ctx.Deadline()
	o.a.limit = o.info.maxRecv
	return o.checkOptions(bad)
}

// end releases the attempt and reports the end, once.
func (o *ownCall) end(err error) {
	o.a.release()
	if o.a.st != nil {
		o.conn.counted(&o.a, err)
	}
	o.conn.own.Add(-1) // its stream has been released
	if !o.info.after {
		return
	}
	var last outcome
	if o.a.reached() {
		last = &o.a
	}
	o.opts.report(last, err)
}

// open opens the stream with out. It takes ownership of out's DATA.
func (o *ownCall) open(out h2.Out) error {
	space := fieldSpaces.Get().(*[]h2.Field)
	defer putFields(space)
	defer freeOut(&out) // also if credentials panic
	err := o.conn.Usable()
	if err == nil {
		err = o.checkAuthority(o.conn)
	}
	if err == nil {
		err = o.fill(&out, &o.a, o.conn, space, 0)
	}
	if err == nil {
		_, err = o.request.open(&o.a, o.conn, &out)
	}
	return err
}

func (o *ownCall) encode(v any) (message.Message, payloadInfo, error) {
	return encodeMessage(o.cc.opts.pool, o.info.sender(v), o.info.compressor, o.info.maxSend, v)
}

// Invoke makes a unary call of the client itself on c, for a producer.
func (c *clientConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	o := new(ownCall)
	err := errExited // unless a function of the application's returns
	defer func() { o.end(err) }()
	if err = o.begin(c, ctx, method, opts); err != nil {
		o.notSent(req)
		return err
	}
	err = errExited
	err = o.invoke(req, reply)
	return err
}

func (o *ownCall) invoke(req, reply any) error {
	o.a.mode = onlyOne
	m, _, err := o.encode(req)
	if err != nil {
		return err
	}
	if err := o.open(h2.Out{Data: m.Buf, Rest: m.Chain, Ending: h2.End}); err != nil {
		return err
	}
	if !o.a.waitEnd(o.ctx.Done()) {
		return status.FromContextError(o.ctx.Err()).Err()
	}
	_, _, err = o.result(&o.a, reply)
	return err
}

// ownStream is a stream of an ownCall. It ends with the first error of a method, but for the io.EOF of SendMsg, or with its context. The end of its
// connection is an error of RecvMsg: without a call of that it ends the attempt alone.
type ownStream struct {
	ownCall
	desc   *grpc.StreamDesc
	opened atomic.Bool // or failed to be; set while sendMu is held

	sendMu   sync.Mutex // held while anything is sent
	closed   bool       // the caller has half-closed
	released bool

	mu     sync.Mutex
	over   bool
	result error       // once over; nil: OK
	stop   func() bool // ends the watch on the context
}

// NewStream begins a stream of the client itself on c, for a health check or a producer.
func (c *clientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &ownStream{desc: desc}
	begun := false
	defer func() {
		if !begun { // an error that has been reported, or a function of the application's has panicked or ended the goroutine
			s.finish(errExited)
		}
	}()
	err := s.begin(c, ctx, method, opts)
	s.a.gate.own.woken = c.cc.wakeUps.get()
	if err == nil {
		err = c.Usable()
	}
	if err == nil && desc.ClientStreams { // otherwise the header is sent together with the request
		err = s.openNow()
	}
	if err != nil {
		s.finish(err)
		return nil, err
	}
	begun = true
	stop := context.AfterFunc(ctx, func() { s.finish(status.FromContextError(ctx.Err()).Err()) })
	s.mu.Lock()
	s.stop = stop
	over := s.over
	s.mu.Unlock()
	if over {
		stop()
	}
	return s, nil
}

// openLocked opens the stream with out. If that fails, also by a panic, the attempt ends, so that nothing waits for it or writes to it. sendMu is
// held.
func (s *ownStream) openLocked(out h2.Out) (err error) {
	s.opened.Store(true)
	err = errExited // unless a function of the application's returns
	defer func() {
		if err != nil {
			s.a.abort(status.Convert(err))
		}
	}()
	err = s.open(out)
	return err
}

// outcome is the call's error, once it has ended.
func (s *ownStream) outcome() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.over:
		return nil
	case s.result == nil:
		return io.EOF
	}
	return s.result
}

// SendMsg implements grpc.ClientStream.
func (s *ownStream) SendMsg(v any) error {
	m, _, err := s.encode(v)
	if err != nil {
		s.finish(err)
		return err
	}
	err = s.send(m)
	switch {
	case err == io.EOF && !s.desc.ClientStreams:
		return nil
	case err != nil && err != io.EOF:
		s.finish(err)
	}
	return err
}

// send takes ownership of m. io.EOF: RecvMsg returns the reason.
func (s *ownStream) send(m message.Message) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock() // also if credentials panic
	switch {
	case s.closed:
		m.Free()
		return errClosed
	case s.outcome() != nil || s.ctx.Err() != nil:
		m.Free()
		return io.EOF
	}
	out := h2.Out{Data: m.Buf, Rest: m.Chain}
	if !s.desc.ClientStreams {
		s.closed, out.Ending = true, h2.End
	}
	if !s.opened.Load() {
		return s.openLocked(out)
	}
	if s.a.write(s.ctx, out) != nil {
		return io.EOF
	}
	return nil
}

// CloseSend implements grpc.ClientStream. It returns nil.
func (s *ownStream) CloseSend() error {
	if err := s.closeSend(); err != nil {
		s.finish(err)
	}
	return nil
}

func (s *ownStream) closeSend() error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if s.closed || s.outcome() != nil || s.ctx.Err() != nil { // the server must not take a cancelled call for complete
		return nil
	}
	s.closed = true
	if !s.opened.Load() {
		return s.openLocked(h2.Out{Ending: h2.End})
	}
	_ = s.a.write(s.ctx, h2.Out{Ending: h2.End}) // RecvMsg returns the error
	return nil
}

// started opens a stream whose caller asks for the response before it has sent the request, and returns its error, if it has ended.
func (s *ownStream) started() error {
	if s.opened.Load() { // a SendMsg may hold sendMu until this goroutine has received
		return s.outcome()
	}
	err := s.openNow()
	if err != nil {
		s.finish(err)
	}
	return err
}

func (s *ownStream) openNow() error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock() // also if credentials panic
	if err := s.outcome(); err != nil || s.opened.Load() {
		return err
	}
	return s.openLocked(h2.Out{})
}

// RecvMsg implements grpc.ClientStream.
func (s *ownStream) RecvMsg(v any) error {
	if err := s.ctx.Err(); err != nil {
		s.finish(status.FromContextError(err).Err())
	}
	if err := s.started(); err != nil {
		return err
	}
	r := s.a.next()
	if r.err != nil {
		return s.noMessage(r)
	}
	err := s.receive(&r, v)
	if err != nil {
		s.finish(err)
		return err
	}
	if s.desc.ServerStreams {
		return nil
	}
	switch after := s.a.next(); after.err {
	case nil:
		after.msg.Free()
		return s.noMessage(received{err: errTwoMessages})
	case io.EOF, errStatus:
		st, _ := s.a.ended()
		err := s.failure(st)
		s.finish(err)
		return err
	default:
		return s.noMessage(after)
	}
}

// noMessage ends the call because next has returned r, which has none, and returns the call's error.
func (s *ownStream) noMessage(r received) error {
	var err error
	switch r.err {
	case io.EOF, errStatus:
		st, _ := s.a.ended()
		if err = s.failure(st); err == nil && !s.desc.ServerStreams {
			err = s.a.refusal(received{err: errNoMessage}, s.info.maxRecv)
		}
	default:
		err = s.a.refusal(r, s.info.maxRecv)
	}
	s.finish(err)
	return s.outcome()
}

// receive takes ownership of the message in r and decodes it.
func (s *ownStream) receive(r *received, v any) error {
	defer r.msg.Free() // unless it has been decoded; also if a codec panics
	comp, err := s.a.decompressor(r.kind, &s.info)
	if err != nil {
		return err
	}
	s.info.lease.renew() // the message before this one
	_, err = decodeMessage(s.cc.opts.pool, s.info.codec, comp, s.info.maxRecv, r, s.info.lease.memory(), v)
	s.info.lease.keep()
	if err == nil {
		s.a.decoded(v)
	}
	return err
}

// finish ends the stream with err, nil being OK, unless it has ended, and returns when its memory has been freed.
func (s *ownStream) finish(err error) {
	s.mu.Lock()
	first := !s.over
	if first {
		s.over, s.result = true, err
	}
	stop := s.stop
	s.mu.Unlock()
	if first {
		if stop != nil {
			stop()
		}
		st := statusFinished
		if err != nil {
			st = status.Convert(err)
		}
		s.a.abort(st)
	}
	if !s.sendMu.TryLock() {
		s.a.interrupt() // a SendMsg that waits for the server's window
		s.sendMu.Lock()
	}
	defer s.sendMu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if err = s.outcome(); err == io.EOF {
		err = nil
	}
	s.end(err)
}

// Header implements grpc.ClientStream.
func (s *ownStream) Header() (metadata.MD, error) {
	if s.started() != nil {
		return nil, nil
	}
	s.a.waitHeader(nil)
	return s.a.headerMD(), nil
}

// Trailer implements grpc.ClientStream.
func (s *ownStream) Trailer() metadata.MD { return s.a.trailerMD() }

// Context implements grpc.ClientStream.
func (s *ownStream) Context() context.Context { return peer.NewContext(s.ctx, &s.conn.peer) }
