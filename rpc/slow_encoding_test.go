package rpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
)

// fatalCodec marshals for longer than the client's connection lives.
type fatalCodec struct {
	encoding.CodecV2
	outlast    func()
	marshalled *atomic.Int64
}

func (c fatalCodec) Marshal(v any) (mem.BufferSlice, error) {
	c.marshalled.Add(1)
	c.outlast()
	return c.CodecV2.Marshal(v)
}

// TestEncodingOutlastsConnections makes a unary call whose connection ends each time its request is encoded. The first attempt is not sent.
// The second one picks a connection after its request has been encoded.
func TestEncodingOutlastsConnections(t *testing.T) {
	faultnet.NeedsTCP(t, "its dialer is its own")
	_, addr := startTarn(t, &testService{})
	k := &killer{}
	cc := dialTarn(t, addr, rpc.WithContextDialer(k.dial), fastBackoff())
	c := pb.NewTestServiceClient(cc)
	ctx := ctxFor(t)
	if _, err := c.EmptyCall(ctx, &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	codec := fatalCodec{encoding.GetCodecV2("proto"), func() {
		k.kill()
		waitWhile(ctx, cc, connectivity.Ready)
	}, new(atomic.Int64)}
	out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1000)}, grpc.ForceCodecV2(codec))
	if err != nil || len(out.GetPayload().GetBody()) != 1000 {
		t.Errorf("%d bytes, %v", len(out.GetPayload().GetBody()), err)
	}
	if n := codec.marshalled.Load(); n != 2 {
		t.Errorf("the request was encoded %d times, want 2", n)
	}
}

// waitWhile waits while cc is in the state.
func waitWhile(ctx context.Context, cc *rpc.ClientConn, s connectivity.State) {
	for cc.GetState() == s && cc.WaitForStateChange(ctx, s) {
	}
}
