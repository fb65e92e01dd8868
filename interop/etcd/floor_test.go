package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/floor"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// least is an etcd client whose unary calls are made by package floor, with their metadata, to the members in turn: what
// remains of a call's time is the library's, protobuf's and etcd's.
func (c *cluster) least(t testing.TB) *clientv3.Client {
	t.Helper()
	var conns []*floor.Conn
	for _, a := range c.addrs {
		conn, err := floor.Dial(a)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
	}
	var turn atomic.Uint32
	return c.client(t, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		in, ok := req.(interface{ Marshal() ([]byte, error) })
		out, ok2 := reply.(interface{ Unmarshal([]byte) error })
		if !ok || !ok2 {
			return fmt.Errorf("%T has no generated code", req)
		}
		b, err := in.Marshal()
		if err != nil {
			return err
		}
		md, _ := metadata.FromOutgoingContext(ctx)
		call, err := conns[turn.Add(1)%uint32(len(conns))].Open(method, b, md)
		if err == nil {
			err = call.Next(out.Unmarshal)
		}
		if err == nil {
			_ = call.Next(nil) // waits for the end
		}
		return err
	}))
}
