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
// protobuf's and the server's.
func least(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := floor.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	cc, err := grpc.NewClient("passthrough:///floor", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(_ context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			call, err := open(conn, method, req)
			if err == nil {
				err = call.Next(func(b []byte) error { return proto.Unmarshal(b, reply.(proto.Message)) })
			}
			if err == nil {
				_ = call.Next(nil) // waits for the end
			}
			return err
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return &leastStream{ctx: ctx, conn: conn, method: method}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

var requests = sync.Pool{New: func() any { return new([]byte) }}

func open(conn *floor.Conn, method string, req any) (*floor.Call, error) {
	p := requests.Get().(*[]byte)
	defer requests.Put(p)
	b, err := proto.MarshalOptions{}.MarshalAppend((*p)[:0], req.(proto.Message))
	if err != nil {
		return nil, err
	}
	*p = b
	return conn.Open(method, b)
}

// leastStream is a call with one request.
type leastStream struct {
	ctx    context.Context
	conn   *floor.Conn
	method string
	call   *floor.Call // nil at the end
}

func (s *leastStream) Header() (metadata.MD, error) { return nil, nil }
func (s *leastStream) Trailer() metadata.MD         { return nil }
func (s *leastStream) Context() context.Context     { return s.ctx }
func (s *leastStream) CloseSend() error             { return nil }

func (s *leastStream) SendMsg(m any) (err error) {
	s.call, err = open(s.conn, s.method, m)
	return err
}

func (s *leastStream) RecvMsg(m any) error {
	if s.call == nil {
		return io.EOF
	}
	err := s.call.Next(func(b []byte) error { return proto.Unmarshal(b, m.(proto.Message)) })
	if err != nil {
		s.call = nil
	}
	return err
}
