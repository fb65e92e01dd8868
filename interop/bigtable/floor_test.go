package bigtable

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/floor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// least is a ClientConn whose calls are made by package floor: what remains of a call's time is the library's,
// protobuf's and the server's. It has what the library asks for: the metadata is sent, a stream has a header and a trailer, and
// its context is watched.
func least(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := floor.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	cc, err := grpc.NewClient("passthrough:///floor", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			call, err := open(ctx, conn, method, req)
			if err == nil {
				err = call.Next(func(b []byte) error { return proto.Unmarshal(b, reply.(proto.Message)) })
			}
			if err == nil {
				_ = call.Next(nil) // waits for the end
			}
			return err
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return newLeastStream(ctx, conn, method), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

var requests = sync.Pool{New: func() any { return new([]byte) }}

func open(ctx context.Context, conn *floor.Conn, method string, req any) (*floor.Call, error) {
	p := requests.Get().(*[]byte)
	defer requests.Put(p)
	b, err := proto.MarshalOptions{}.MarshalAppend((*p)[:0], req.(proto.Message))
	if err != nil {
		return nil, err
	}
	*p = b
	md, _ := metadata.FromOutgoingContext(ctx)
	return conn.Open(method, b, md)
}

// leastStream is a call with one request.
type leastStream struct {
	ctx    context.Context
	stop   func() bool // ends the watch on ctx
	conn   *floor.Conn
	method string
	call   *floor.Call // nil at the end
}

func newLeastStream(ctx context.Context, conn *floor.Conn, method string) *leastStream {
	// No context ends while the benchmark runs. If one did, all calls would fail.
	return &leastStream{ctx: ctx, stop: context.AfterFunc(ctx, func() { conn.Close() }), conn: conn, method: method}
}

func (s *leastStream) Header() (metadata.MD, error) {
	return metadata.MD{"content-type": {"application/grpc"}}, nil
}
func (s *leastStream) Trailer() metadata.MD     { return metadata.MD{} }
func (s *leastStream) Context() context.Context { return s.ctx }
func (s *leastStream) CloseSend() error         { return nil }

func (s *leastStream) SendMsg(m any) (err error) {
	s.call, err = open(s.ctx, s.conn, s.method, m)
	return err
}

func (s *leastStream) RecvMsg(m any) error {
	if s.call == nil {
		return io.EOF
	}
	err := s.call.Next(func(b []byte) error { return proto.Unmarshal(b, m.(proto.Message)) })
	if err != nil {
		s.stop()
		s.call = nil
	}
	return err
}
