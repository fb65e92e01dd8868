package rpc

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/binlog"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// serverBegin logs a request's header and returns the call's log; nil when its method is
// not logged.
func (l *CallLog) serverBegin(ctx context.Context, method string) *loggedCall {
	c := l.call(method, pb.GrpcLogEntry_LOGGER_SERVER)
	if c == nil {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	authority := ""
	if a := md[":authority"]; len(a) > 0 {
		authority = a[0]
	}
	timeout := time.Duration(0)
	if at, ok := ctx.Deadline(); ok {
		timeout = time.Until(at)
	}
	var from net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	c.write(binlog.ClientHeader(c.limits, md, method, authority, timeout, from))
	return c
}

func (l *CallLog) unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := l.serverBegin(ctx, info.FullMethod)
	if c == nil {
		return handler(ctx, req)
	}
	c.message(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_MESSAGE, c.messageOf(req))
	t := &loggedTransport{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx), c: c}
	defer t.panicked()
	reply, err := handler(grpc.NewContextWithServerTransportStream(ctx, t), req)
	if err == nil {
		t.logHeader()
		c.message(pb.GrpcLogEntry_EVENT_TYPE_SERVER_MESSAGE, c.messageOf(reply))
	}
	t.ended(err)
	return reply, err
}

func (l *CallLog) streamServer(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := s.Context()
	c := l.serverBegin(ctx, info.FullMethod)
	if c == nil {
		return handler(srv, s)
	}
	t := &loggedTransport{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx), c: c}
	defer t.panicked()
	err := handler(srv, &loggedServerStream{ServerStream: s, t: t, ctx: grpc.NewContextWithServerTransportStream(ctx, t)})
	t.ended(err)
	return err
}

// loggedTransport intercepts the header and trailer that a handler sets.
type loggedTransport struct {
	grpc.ServerTransportStream
	c *loggedCall

	mu      sync.Mutex
	header  metadata.MD
	trailer metadata.MD
	over    bool
}

// SetHeader implements grpc.ServerTransportStream.
func (t *loggedTransport) SetHeader(md metadata.MD) error {
	err := t.ServerTransportStream.SetHeader(md)
	if err == nil {
		t.note(&t.header, md)
	}
	return err
}

// SendHeader implements grpc.ServerTransportStream.
func (t *loggedTransport) SendHeader(md metadata.MD) error {
	err := t.ServerTransportStream.SendHeader(md)
	if err == nil {
		t.note(&t.header, md)
		t.logHeader()
	}
	return err
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *loggedTransport) SetTrailer(md metadata.MD) error {
	err := t.ServerTransportStream.SetTrailer(md)
	if err == nil {
		t.note(&t.trailer, md)
	}
	return err
}

func (t *loggedTransport) note(to *metadata.MD, md metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*to = metadata.Join(*to, md)
}

// logHeader logs the response's header, once.
func (t *loggedTransport) logHeader() {
	t.mu.Lock()
	md := t.header
	t.mu.Unlock()
	t.c.serverHeader(md, nil)
}

// ended logs the status.
func (t *loggedTransport) ended(err error) {
	t.mu.Lock()
	t.over = true
	header, trailer := t.header, t.trailer
	t.mu.Unlock()
	if err != nil && len(header) > 0 {
		t.c.serverHeader(header, nil)
	}
	t.c.trailer(trailer, statusOf(err), nil)
}

// panicked logs the end of a call whose handler did not return.
func (t *loggedTransport) panicked() {
	t.mu.Lock()
	over := t.over
	t.mu.Unlock()
	if !over {
		t.ended(status.Error(codes.Internal, "the handler panicked"))
	}
}

// loggedServerStream logs a stream.
type loggedServerStream struct {
	grpc.ServerStream
	t   *loggedTransport
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *loggedServerStream) Context() context.Context { return s.ctx }

// SetHeader implements grpc.ServerStream.
func (s *loggedServerStream) SetHeader(md metadata.MD) error { return s.t.SetHeader(md) }

// SendHeader implements grpc.ServerStream.
func (s *loggedServerStream) SendHeader(md metadata.MD) error { return s.t.SendHeader(md) }

// SetTrailer implements grpc.ServerStream.
func (s *loggedServerStream) SetTrailer(md metadata.MD) {
	_ = s.t.SetTrailer(md) // SetTrailer of a ServerStream returns no error
}

// SendMsg implements grpc.ServerStream.
func (s *loggedServerStream) SendMsg(v any) error {
	m := s.t.c.messageOf(v) // before it is sent, which empties a raw message
	err := s.ServerStream.SendMsg(v)
	if err == nil {
		s.t.logHeader()
		s.t.c.message(pb.GrpcLogEntry_EVENT_TYPE_SERVER_MESSAGE, m)
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *loggedServerStream) RecvMsg(v any) error {
	err := s.ServerStream.RecvMsg(v)
	switch err {
	case nil:
		s.t.c.message(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_MESSAGE, s.t.c.messageOf(v))
	case io.EOF:
		s.t.c.halfClose()
	}
	return err
}
