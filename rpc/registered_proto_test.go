package rpc_test

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
)

// countingProto is a codec that programs register in place of grpc-go's own, as OpenTelemetry's collector does.
type countingProto struct {
	encoding.CodecV2
	marshalled, unmarshalled *atomic.Int64
}

func (c countingProto) Marshal(v any) (mem.BufferSlice, error) {
	c.marshalled.Add(1)
	return c.CodecV2.Marshal(v)
}

func (c countingProto) Unmarshal(data mem.BufferSlice, v any) error {
	c.unmarshalled.Add(1)
	return c.CodecV2.Unmarshal(data, v)
}

// TestRegisteredProto registers a codec named "proto". Clients and servers use it for calls without call options, in each pairing and
// over each protocol. It runs in a process of its own, because codecs are registered for all of it.
func TestRegisteredProto(t *testing.T) {
	const child = "TARN_REGISTERED_PROTO"
	if os.Getenv(child) == "" {
		runChild(t, "TestRegisteredProto", child+"=1")
		return
	}
	own := countingProto{encoding.GetCodecV2("proto"), new(atomic.Int64), new(atomic.Int64)}
	encoding.RegisterCodecV2(own)
	check := func(t *testing.T, c pb.TestServiceClient) {
		own.marshalled.Store(0)
		own.unmarshalled.Store(0)
		out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100_000)})
		if err != nil || len(out.GetPayload().GetBody()) != 100_000 {
			t.Fatalf("%d bytes, %v", len(out.GetPayload().GetBody()), err)
		}
		if m, u := own.marshalled.Load(), own.unmarshalled.Load(); m != 2 || u != 2 {
			t.Errorf("the codec marshalled %d of 2 messages and unmarshalled %d", m, u)
		}
	}
	eachPairing(t, &testService{}, check)
	_, addr := startTarn(t, &testService{})
	for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
		t.Run(p.String(), func(t *testing.T) { check(t, pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p)))) })
	}
}
