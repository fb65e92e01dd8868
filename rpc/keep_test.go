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

// A program may change a message as soon as SendMsg has returned, on both sides.
func TestSentMessagesMayBeChanged(t *testing.T) {
	const size, messages = 150 << 10, 3
	fill := func(b []byte, i int) {
		for j := range b {
			b[j] = byte(i)
		}
	}
	check := func(t *testing.T, i int, b []byte) {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Errorf("message %d has changed", i)
		}
	}
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		for i := range messages {
			in, err := s.Recv()
			if err != nil {
				return err
			}
			check(t, i, in.Payload.Body)
		}
		out := &pb.StreamingOutputCallResponse{Payload: payload(size)}
		for i := range messages {
			fill(out.Payload.Body, i)
			if err := s.Send(out); err != nil {
				return err
			}
			fill(out.Payload.Body, 0xee)
		}
		return nil
	}}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		in := &pb.StreamingOutputCallRequest{Payload: payload(size)}
		for i := range messages {
			fill(in.Payload.Body, i)
			if err := s.Send(in); err != nil {
				t.Fatal(err)
			}
			fill(in.Payload.Body, 0xee)
		}
		for i := range messages {
			out, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			check(t, i, out.Payload.Body)
		}
	})
}
