package bench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// StreamingCall answers each message of a stream as UnaryCall answers a call.
func (b *benchService) StreamingCall(stream pb.BenchmarkService_StreamingCallServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		resp, err := b.UnaryCall(stream.Context(), req)
		if err != nil {
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// openStreams opens a stream for each caller, all of which end with ctx, and returns a call that sends
// size bytes on the caller's and waits for as many.
func openStreams(ctx context.Context, conn grpc.ClientConnInterface, size, callers int) (func(context.Context, int) error, error) {
	client := pb.NewBenchmarkServiceClient(conn)
	streams := make([]pb.BenchmarkService_StreamingCallClient, callers)
	for i := range streams {
		var err error
		if streams[i], err = client.StreamingCall(ctx); err != nil {
			return nil, err
		}
	}
	req := &pb.SimpleRequest{ResponseSize: int32(size), Payload: &pb.Payload{Body: make([]byte, size)}}
	return func(_ context.Context, caller int) error {
		if err := streams[caller].Send(req); err != nil {
			return err
		}
		resp, err := streams[caller].Recv()
		if err == nil && len(resp.Payload.GetBody()) != size {
			return fmt.Errorf("%d bytes arrived, not %d", len(resp.Payload.GetBody()), size)
		}
		return err
	}, nil
}

// runStreams sends messages in both directions on streams that stay open.
func runStreams(ctx context.Context, s *session, pairs []rpcPair) (Case, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const size = 100
	k := *s
	k.callers = smallCallers
	var loads []load
	for _, p := range pairs {
		call, err := openStreams(ctx, p.conn, size, k.callers)
		if err != nil {
			return Case{}, err
		}
		loads = append(loads, load{p.name, p.kind, call})
	}
	return k.runLoads(ctx, fmt.Sprintf("Messages of %d B to and fro on %d open streams of one connection", size, k.callers), loads)
}
