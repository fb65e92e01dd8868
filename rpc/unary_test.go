package rpc_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

func TestUnaryEcho(t *testing.T) {
	t.Parallel()
	eachPairing(t, &testService{}, func(t *testing.T, c pb.TestServiceClient) {
		for _, n := range sizes() {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out.Payload.Body, body(n)) {
					t.Fatalf("got %d other bytes", len(out.Payload.Body))
				}
			})
		}
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	eachPairing(t, &testService{}, func(t *testing.T, c pb.TestServiceClient) {
		t.Run("duplex", func(t *testing.T) {
			s, err := c.FullDuplexCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range sizes() {
				if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}); err != nil {
					t.Fatal(err)
				}
				out, err := s.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out.Payload.Body, body(n)) {
					t.Fatalf("%d: got %d other bytes", n, len(out.Payload.Body))
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != io.EOF {
				t.Fatal(err)
			}
		})
		t.Run("input", func(t *testing.T) {
			s, err := c.StreamingInputCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, n := range sizes() {
				want += n
				if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(n)}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := s.CloseAndRecv()
			if err != nil || int(out.AggregatedPayloadSize) != want {
				t.Fatal(out, err)
			}
		})
		t.Run("output", func(t *testing.T) {
			req := &pb.StreamingOutputCallRequest{}
			for _, n := range sizes() {
				req.ResponseParameters = append(req.ResponseParameters, &pb.ResponseParameters{Size: int32(n)})
			}
			s, err := c.StreamingOutputCall(ctxFor(t), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range sizes() {
				out, err := s.Recv()
				if err != nil || len(out.Payload.Body) != n {
					t.Fatal(n, err)
				}
			}
			if _, err := s.Recv(); err != io.EOF {
				t.Fatal(err)
			}
		})
	})
}
