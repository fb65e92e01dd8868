package rpc_test

import (
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TestGRPCWithJSON: gRPC calls with the content type application/grpc+json, as connect-go's, connect-es' and connect-python's clients make
// them, have JSON through Serve as through ServeHTTP, without a registered codec.
func TestGRPCWithJSON(t *testing.T) {
	_, serve := startTarn(t, &testService{})
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, &testService{})
	for server, addr := range map[string]string{"Serve": serve, "ServeHTTP": serveHTTP2(t, s)} {
		for client, cc := range map[string]grpc.ClientConnInterface{"Tarn": dialTarn(t, addr), "grpc-go": dialGRPC(t, addr)} {
			out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}, grpc.ForceCodec(protoJSON{}))
			if err != nil || len(out.Payload.Body) != 10 {
				t.Errorf("%s at %s: %v", client, server, err)
			}
		}
	}
}

// protoJSON is a codec that a client uses without registering it.
type protoJSON struct{}

func (protoJSON) Name() string                  { return "json" }
func (protoJSON) Marshal(v any) ([]byte, error) { return protojson.Marshal(v.(proto.Message)) }
func (protoJSON) Unmarshal(data []byte, v any) error {
	return protojson.Unmarshal(data, v.(proto.Message))
}
