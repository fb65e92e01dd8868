package rpc_test

import (
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
)

// panicking is a codec that panics when it decodes.
type panicking struct{ encoding.CodecV2 }

func (panicking) Unmarshal(mem.BufferSlice, any) error { panic("the codec") }

// TestCodecThatPanics: the call of a codec that panics ends with INTERNAL, and the server's pool has the request's memory back.
func TestCodecThatPanics(t *testing.T) {
	for name, opts := range map[string][]rpc.ServerOption{"copied": nil, "lent": {rpc.LendRequests()}} {
		t.Run(name, func(t *testing.T) {
			codec := panicking{encoding.GetCodecV2(proto.Name)}
			_, addr := startTarn(t, &testService{}, append(opts, rpc.ForceServerCodecV2(codec), rpc.PanicHandler(func(string, any, []byte) {}))...)
			c := pb.NewTestServiceClient(dialTarn(t, addr))
			for _, size := range []int{10, 100_000} {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(size)})
				wantCode(t, err, codes.Internal)
				s, err := c.StreamingInputCall(ctxFor(t))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(size)}); err != nil {
					t.Fatal(err)
				}
				_, err = s.CloseAndRecv()
				wantCode(t, err, codes.Internal)
			}
		})
	}
}
