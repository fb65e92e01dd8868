package rpc_test

import (
	"context"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/tarn-go/tarn/rpc"
)

// TestSlowestCall: a method names the slowest call of the last minute, and at the server its trace.
func TestSlowestCall(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	waits := make(chan struct{})
	svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.FillUsername {
			<-waits
		}
		return &pb.SimpleResponse{}, nil
	}}
	s, addr := startTarn(t, svc, rpc.ObserveCalls())
	cc := dialTarn(t, addr, rpc.WithObserveCalls())
	c := pb.NewTestServiceClient(cc)
	done := make(chan error)
	go func() {
		ctx := metadata.AppendToOutgoingContext(ctxFor(t), "traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillUsername: true})
		done <- err
	}()
	for range 100 { // each is shorter than that one, which has begun before, or begins while these are made
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	close(waits)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := cc.Close(); err != nil {
		t.Fatal(err)
	}
	s.GracefulStop()
	if m := s.Endpoint().Methods; len(m) != 1 || m[0].Slowest == nil || m[0].Slowest.Trace != trace || m[0].Slowest.Seconds <= 0 {
		t.Errorf("server: %+v", m)
	}
	if m := cc.Endpoint().Methods; len(m) != 1 || m[0].Slowest == nil || m[0].Slowest.Seconds <= 0 {
		t.Errorf("client: %+v", m)
	}
}
