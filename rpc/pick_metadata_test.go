package rpc_test

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// badMetadataPick picks a SubConn with metadata that may not be sent.
type badMetadataPick struct {
	sc   balancer.SubConn
	done chan struct{}
}

func (p badMetadataPick) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc, Metadata: metadata.MD{"bad key": {"value"}},
		Done: func(balancer.DoneInfo) { p.done <- struct{}{} }}, nil
}

// TestInvalidMetadataOfAPick: a call to which the balancer adds metadata that may not be sent fails before anything is sent, as in grpc-go.
func TestInvalidMetadataOfAPick(t *testing.T) {
	done := make(chan struct{}, 1)
	balancer.Register(base.NewBalancerBuilder("bad_metadata_test", firstReady(func(sc balancer.SubConn) balancer.Picker { return badMetadataPick{sc, done} }), base.Config{}))
	const config = `{"loadBalancingConfig":[{"bad_metadata_test":{}}]}`
	_, addr := startTarn(t, &testService{})
	clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr, rpc.WithDefaultServiceConfig(config))}
	if newestGRPC() {
		clients["grpc-go"] = dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config))
	}
	for name, cc := range clients {
		for kind, call := range map[string]func(pb.TestServiceClient) error{
			"unary": func(c pb.TestServiceClient) error {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				return err
			},
			"stream": func(c pb.TestServiceClient) error {
				_, err := c.FullDuplexCall(ctxFor(t))
				return err
			},
		} {
			err := call(pb.NewTestServiceClient(cc))
			if wantCode(t, err, codes.Internal); !strings.Contains(err.Error(), "bad key") {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
			<-done
		}
	}
}
