package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/binlog"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// callLogger is a client's log, as interceptors.
type callLogger struct {
	cc  *ClientConn
	log *CallLog
}

// begin logs the request's header and returns the call's log; nil when its method is not
// logged.
func (l callLogger) begin(ctx context.Context, method string, opts []grpc.CallOption) *loggedCall {
	c := l.log.call(method, pb.GrpcLogEntry_LOGGER_CLIENT)
	if c == nil {
		return nil
	}
	timeout := time.Duration(0)
	if at, ok := ctx.Deadline(); ok {
		timeout = time.Until(at)
	}
	if cfg := l.cc.channel.Config(); cfg != nil {
		if mc := callsOf(cfg).find(method); mc != nil && mc.timeout != nil && *mc.timeout > 0 && (timeout == 0 || *mc.timeout < timeout) {
			timeout = *mc.timeout
		}
	}
	authority := l.cc.authority
	for _, o := range opts {
		if o, ok := o.(grpc.AuthorityOverrideCallOption); ok {
			authority = o.Authority
		}
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	c.write(binlog.ClientHeader(c.limits, md, method, authority, timeout, nil))
	return c
}

// ended logs how a call ended. A call whose context ended is logged as if the server had sent that status;
// grpc-go logs this or CANCEL, depending on the order of its goroutines. CANCEL means that the client was
// closed.
func (c *loggedCall) ended(err error, trailer metadata.MD, peer net.Addr) {
	if errors.Is(err, ErrClientConnClosing) {
		c.end(binlog.Event(pb.GrpcLogEntry_EVENT_TYPE_CANCEL))
		return
	}
	c.trailer(trailer, status.Convert(err), peer)
}

func (l callLogger) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c := l.begin(ctx, method, opts)
	if c == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c.message(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_MESSAGE, c.messageOf(req))
	var head, trailer metadata.MD
	var p peer.Peer
	opts = append(opts[:len(opts):len(opts)], grpc.Header(&head), grpc.Trailer(&trailer), grpc.Peer(&p))
	err := invoke(ctx, method, req, reply, cc, opts...)
	if head != nil {
		c.serverHeader(head, p.Addr)
	}
	if err == nil {
		c.message(pb.GrpcLogEntry_EVENT_TYPE_SERVER_MESSAGE, c.messageOf(reply))
	}
	c.ended(err, trailer, p.Addr)
	return err
}

func (l callLogger) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c := l.begin(ctx, method, opts)
	if c == nil {
		return streamer(ctx, desc, cc, method, opts...)
	}
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		c.ended(err, nil, nil)
		return nil, err
	}
	out := &loggedClientStream{ClientStream: s, c: c, desc: desc}
	if ctx.Done() != nil {
		out.stop = context.AfterFunc(ctx, func() { c.ended(status.FromContextError(ctx.Err()).Err(), nil, out.peer()) })
	}
	return out, nil
}

// loggedClientStream logs a stream.
type loggedClientStream struct {
	grpc.ClientStream
	c    *loggedCall
	desc *grpc.StreamDesc
	stop func() bool
	once sync.Once // finish
}

func (s *loggedClientStream) peer() net.Addr {
	if p, ok := peer.FromContext(s.ClientStream.Context()); ok {
		return p.Addr
	}
	return nil
}

// SendMsg implements grpc.ClientStream.
func (s *loggedClientStream) SendMsg(v any) error {
	m := s.c.messageOf(v) // before it is sent, which empties a raw message
	err := s.ClientStream.SendMsg(v)
	if err == nil {
		s.c.message(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_MESSAGE, m)
	}
	return err
}

// CloseSend implements grpc.ClientStream.
func (s *loggedClientStream) CloseSend() error {
	err := s.ClientStream.CloseSend()
	if s.desc.ClientStreams { // otherwise the request has ended with its message
		s.c.halfClose()
	}
	return err
}

// Header implements grpc.ClientStream.
func (s *loggedClientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err == nil && md != nil {
		s.c.serverHeader(md, s.peer())
	}
	return md, err
}

// RecvMsg implements grpc.ClientStream.
func (s *loggedClientStream) RecvMsg(v any) error {
	if s.c.needsHeader() {
		_, _ = s.Header() // RecvMsg returns the error
	}
	err := s.ClientStream.RecvMsg(v)
	if err == nil {
		s.c.message(pb.GrpcLogEntry_EVENT_TYPE_SERVER_MESSAGE, s.c.messageOf(v))
	}
	if err != nil || !s.desc.ServerStreams {
		s.once.Do(func() { s.finish(err) })
	}
	return err
}

func (s *loggedClientStream) finish(err error) {
	if s.stop != nil {
		s.stop()
	}
	if err == io.EOF {
		err = nil
	}
	s.c.ended(err, s.ClientStream.Trailer(), s.peer())
}
