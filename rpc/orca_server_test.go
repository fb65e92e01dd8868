package rpc_test

import (
	"context"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

type recorderKey struct{}

// likeOrca is an option made as orca's is: an interceptor adds a value to the context and sets the trailer
// when the handler has returned. interop uses orca's own.
func likeOrca() grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		n := new(int)
		out, err := handler(context.WithValue(ctx, recorderKey{}, n), req)
		if *n > 0 {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("load", "reported"))
		}
		return out, err
	})
}

// The interceptor of grpc-go's option runs for unary calls and streams; an option without one is refused.
func TestCallMetricsServerOption(t *testing.T) {
	report := func(ctx context.Context) {
		if n, ok := ctx.Value(recorderKey{}).(*int); ok {
			*n++
		}
	}
	svc := &testService{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			report(ctx)
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			report(s.Context())
			return nil
		},
	}
	_, addr := startTarn(t, svc, rpc.CallMetricsServerOption(likeOrca()))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	var trailer metadata.MD
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.Trailer(&trailer)); err != nil || len(trailer["load"]) != 1 {
		t.Errorf("unary: trailer %v, %v", trailer, err)
	}
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); len(s.Trailer()["load"]) != 1 {
		t.Errorf("stream: trailer %v, %v", s.Trailer(), err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an option without an interceptor was taken")
		}
	}()
	rpc.CallMetricsServerOption(grpc.MaxRecvMsgSize(1))
}
