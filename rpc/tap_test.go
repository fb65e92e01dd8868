package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

type tapKey struct{}

// Calls are accepted with the handle's context, or refused with its error, as by grpc-go.
func TestInTapHandle(t *testing.T) {
	handle := func(ctx context.Context, info *tap.Info) (context.Context, error) {
		switch v := info.Header.Get("want"); {
		case info.FullMethodName == pb.TestService_EmptyCall_FullMethodName:
			return nil, errors.New("not this one")
		case len(v) > 0:
			return nil, status.Error(codes.ResourceExhausted, v[0])
		}
		return context.WithValue(ctx, tapKey{}, "tapped"), nil
	}
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if ctx.Value(tapKey{}) != "tapped" {
			return nil, errors.New("the handler has another context")
		}
		if err := grpc.SetHeader(ctx, metadata.Pairs("h", "1")); err != nil {
			return nil, err
		}
		return &pb.SimpleResponse{}, nil
	}}
	servers := map[string]func() string{
		"tarn": func() string { _, addr := startTarn(t, svc, rpc.InTapHandle(handle)); return addr },
		"grpc": func() string { _, addr := startGRPC(t, svc, grpc.InTapHandle(handle)); return addr },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := pb.NewTestServiceClient(dialTarn(t, start()))
			if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.PermissionDenied)
			_, err = c.UnaryCall(metadata.AppendToOutgoingContext(ctxFor(t), "want", "less"), &pb.SimpleRequest{})
			wantCode(t, err, codes.ResourceExhausted)
			if status.Convert(err).Message() != "less" {
				t.Error(err)
			}
		})
	}
}
