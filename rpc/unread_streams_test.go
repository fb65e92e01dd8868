package rpc_test

import (
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestUnreadStreamsDoNotHoldUpCalls: messages that a client leaves unread on many streams, each within its window, do not hold up the connection's other calls.
func TestUnreadStreamsDoNotHoldUpCalls(t *testing.T) {
	const size, n = 200 << 10, 400
	sent := make(chan error, n)
	svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		sent <- s.Send(&pb.StreamingOutputCallResponse{Payload: payload(size)})
		<-s.Context().Done()
		return nil
	}}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	ctx := ctxFor(t)
	for range n {
		if _, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		select {
		case err := <-sent:
			if err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d messages have been sent", i, n)
		}
	}
	if out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1000)}); err != nil || len(out.Payload.GetBody()) != 1000 {
		t.Error(err)
	}
}
