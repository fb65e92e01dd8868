package rpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// interception is a call that a config selector's CallInterceptor makes. The call has begun; its options are applied to the stream that the
// interceptor asks for, which also reports the call's end.
type interception struct {
	call
	desc *grpc.StreamDesc

	mu   sync.Mutex
	made []*clientStream
	over error       // the call has ended, with this; nil: it has not
	stop func() bool // ends the watch on the context of a call that the interceptor answers; nil: there is none
}

// errEnded is for streams that an interceptor makes when its call has ended.
var errEnded = status.Error(codes.Canceled, "rpc: the call has ended")

// next is the CallStreamer.
func (in *interception) next(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c := in.call
	c.ctx = ctx
	bad := c.merge(c.cc.passedOn(opts))
	cs := &clientStream{call: c, desc: in.desc}
	if err := cs.settle(cs.selected.config, &cs.selected.method, bad); err != nil {
		cs.report(nil, err)
		return nil, err
	}
	if err := cs.start(); err != nil {
		return nil, err
	}
	in.mu.Lock()
	in.made = append(in.made, cs)
	over := in.over
	in.mu.Unlock()
	if over != nil {
		cs.finish(over)
		return nil, over
	}
	return cs, nil
}

// open has the interceptor make the call's stream. On error the call has ended.
func (in *interception) open() (grpc.ClientStream, error) {
	over := false
	defer func() {
		if !over { // the interceptor has panicked or ended the goroutine
			in.end(errExited)
		}
	}()
	s, err := in.selected.intercept(in.ctx, in.next, in.opts.all()...)
	over = true
	if err == nil && s == nil {
		err = status.Error(codes.Internal, "rpc: the config selector's interceptor has returned no stream")
	}
	if err != nil {
		err = asStatusError(err)
		in.end(err)
		return nil, err
	}
	return s, nil
}

// end ends the streams that the interceptor has asked for, and reports the call's end, unless one of them has.
func (in *interception) end(err error) {
	in.mu.Lock()
	in.over = errEnded
	made, stop := in.made, in.stop
	in.made = nil
	in.mu.Unlock()
	if stop != nil {
		stop()
	}
	for _, s := range made {
		s.finish(err)
	}
	in.report(nil, err)
}

// answered reports whether the interceptor has asked for no stream.
func (in *interception) answered() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.made) == 0
}

// invokeIntercepted makes a unary call through the selector's interceptor.
func (c *call) invokeIntercepted(req, reply any) error {
	in := &interception{call: *c, desc: new(grpc.StreamDesc)}
	s, err := in.open()
	if err != nil {
		in.notSent(req) // unless the interceptor has sent it
		return err
	}
	if in.answered() {
		in.notSent(req)
	}
	err = errExited
	defer func() { in.end(err) }() // also where a stream of the interceptor's panics or ends the goroutine
	err = (&interceptedStream{ClientStream: s, in: in}).roundTrip(req, reply)
	return err
}

// streamIntercepted begins a streaming call through the selector's interceptor.
func (c *call) streamIntercepted(desc *grpc.StreamDesc) (grpc.ClientStream, error) {
	in := &interception{call: *c, desc: desc}
	s, err := in.open()
	if err != nil {
		return nil, err
	}
	if _, ok := s.(*clientStream); ok { // of next: nothing watches it
		return s, nil
	}
	if in.answered() { // no stream of the client's reports the end when the context ends
		stop := context.AfterFunc(in.ctx, func() { in.report(nil, status.FromContextError(in.ctx.Err()).Err()) })
		in.mu.Lock()
		in.stop = stop
		in.mu.Unlock()
	}
	return &interceptedStream{ClientStream: s, in: in}, nil
}

// interceptedStream is a stream of an interceptor's. As grpc-go does, it calls CloseSend after the only message, and once, and RecvMsg until it
// fails.
type interceptedStream struct {
	grpc.ClientStream
	in     *interception
	closed atomic.Bool // CloseSend has been called
}

// CloseSend implements grpc.ClientStream.
func (s *interceptedStream) CloseSend() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.ClientStream.CloseSend()
}

func (s *interceptedStream) roundTrip(req, reply any) error {
	if err := s.SendMsg(req); err != nil {
		return err
	}
	return s.RecvMsg(reply)
}

// SendMsg implements grpc.ClientStream.
func (s *interceptedStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	switch {
	case s.in.desc.ClientStreams:
		return err
	case err == io.EOF: // RecvMsg returns the error
		return nil
	case err != nil:
		err = asStatusError(err)
		s.in.end(err)
		return err
	}
	if err := s.CloseSend(); err != nil && err != io.EOF {
		err = asStatusError(err)
		s.in.end(err)
		return err
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *interceptedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && !s.in.desc.ServerStreams {
		switch err = s.ClientStream.RecvMsg(m); err {
		case io.EOF:
			s.in.end(nil)
			return nil
		case nil:
			err = status.Error(codes.Internal, responseCount.many)
		}
	}
	switch {
	case err == io.EOF && s.in.desc.ServerStreams:
		s.in.end(nil)
	case err == io.EOF:
		err = status.Error(codes.Internal, responseCount.none)
		s.in.end(err)
	case err != nil:
		err = asStatusError(err)
		s.in.end(err)
	}
	return err
}

// asStatusError is the status error that an interceptor's error becomes.
func asStatusError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err() // UNKNOWN, unless it is a context's
}
