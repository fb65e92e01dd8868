package rpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestClientHasLeft: when the client has left, a handler can send nothing more, statistics handlers see neither header nor trailer, and the call
// ends with what the handler returns, or with what a unary reply that cannot be sent makes of it, as in grpc-go.
func TestClientHasLeft(t *testing.T) {
	for _, w := range ways {
		if w.grpcgo && w.http != nil {
			continue // there the context ends before the transport does, so either may be
		}
		for kind, end := range map[string]string{"unary": "End Canceled", "both": "End OK"} {
			if kind == "both" && w.major == 1 {
				continue
			}
			t.Run(w.name+"/"+kind, func(t *testing.T) {
				j, reached := newJournal(), make(chan struct{})
				left := func(ctx context.Context) {
					close(reached)
					<-ctx.Done()
					if err := grpc.SendHeader(ctx, pairs("h", "1")); err == nil {
						t.Error("SendHeader succeeds")
					}
				}
				svc := &testService{
					unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
						left(ctx)
						return &pb.SimpleResponse{}, nil
					},
					duplex: func(st pb.TestService_FullDuplexCallServer) error {
						left(st.Context())
						return nil
					},
				}
				c := pb.NewTestServiceClient(w.serve(t, svc, j, 1<<20, 1<<20))
				ctx, leave := context.WithCancel(ctxFor(t))
				defer leave()
				over := make(chan struct{})
				go func() {
					defer close(over)
					if kind == "unary" {
						_, _ = c.UnaryCall(ctx, &pb.SimpleRequest{})
						return
					}
					if st, err := c.FullDuplexCall(ctx); err == nil {
						_ = st.Send(&pb.StreamingOutputCallRequest{})
						_, _ = st.Recv()
					}
				}()
				<-reached
				leave()
				<-over
				<-j.ended
				got := j.take()
				if slices.Contains(got, "OutHeader") || slices.Contains(got, "OutTrailer") || !slices.Contains(got, end) {
					t.Errorf("%q, want %s without OutHeader and OutTrailer", got, end)
				}
			})
		}
	}
}
