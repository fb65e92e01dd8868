package rpc_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

// Large messages belong to their receiver, on either side, whatever is received afterwards.
func TestLargeMessagesStay(t *testing.T) {
	const size, calls = 1<<20 + 100, 6
	var mu sync.Mutex
	var requests [][]byte
	svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, in.Payload.Body)
		return &pb.SimpleResponse{Payload: in.Payload, Username: "user"}, nil
	}}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		mu.Lock()
		requests = nil
		mu.Unlock()
		var replies [][]byte
		for i := range calls {
			b := bytes.Repeat([]byte{byte(i)}, size)
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: b}, FillUsername: true})
			if err != nil {
				t.Fatal(err)
			}
			if out.Username != "user" {
				t.Errorf("user %q", out.Username)
			}
			replies = append(replies, out.Payload.Body)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range calls {
			want := bytes.Repeat([]byte{byte(i)}, size)
			if !bytes.Equal(requests[i], want) || !bytes.Equal(replies[i], want) {
				t.Errorf("message %d has changed", i)
			}
		}
	})
}
