package rpc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
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

// The handle's context has the call's deadline, as in grpc-go. A handle that waits for it, which it must not, blocks the
// connection until then only.
func TestTapDeadline(t *testing.T) {
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{}, nil
	}}
	const timeout = time.Second
	var waits []error
	handle := func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		at, ok := ctx.Deadline()
		if left := time.Until(at); !ok || left != timeout {
			t.Errorf("the deadline is in %v (%v), want %v", left, ok, timeout)
		}
		if waits == nil {
			<-ctx.Done()
			waits = append(waits, ctx.Err())
		}
		return ctx, nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.InTapHandle(handle))
		pb.RegisterTestServiceServer(s, svc)
		c := pb.NewTestServiceClient(dialPiped(t, s))
		for _, want := range []codes.Code{codes.DeadlineExceeded, codes.OK} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			cancel()
			wantCode(t, err, want)
		}
		if !slices.Equal(waits, []error{context.DeadlineExceeded}) {
			t.Errorf("the handle's context ended with %v", waits)
		}
	})
}
