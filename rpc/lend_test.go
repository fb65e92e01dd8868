package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// A lent request is intact while its handler runs, and poisoned when it has returned: the test's pool checks
// everything.
func TestLendRequests(t *testing.T) {
	var kept [][]byte
	svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		kept = append(kept, in.Payload.GetBody())
		return &pb.SimpleResponse{Payload: in.Payload}, nil // the response is a view as well
	}}
	server, addr := startTarn(t, svc, rpc.LendRequests("/grpc.testing.TestService/UnaryCall"))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for _, n := range sizes() {
		out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)})
		if err != nil || !bytes.Equal(out.Payload.GetBody(), body(n)) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if raceFactor > 1 {
		return // the memory has another owner: the race detector would report the read
	}
	server.Stop() // the last response has arrived, but its memory may not have been freed yet
	for _, b := range kept {
		if len(b) >= 1<<10 && bytes.Equal(b, body(len(b))) {
			t.Errorf("a request of %d bytes is still intact after its handler", len(b))
		}
		if len(b) > 0 && len(b) < 1<<10 && !bytes.Equal(b, body(len(b))) {
			t.Errorf("a request of %d bytes is not", len(b))
		}
	}
}

// In a stream a lent message is intact until the next is received.
func TestLendRequestsOfAStream(t *testing.T) {
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		for {
			in, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
				return err
			}
		}
	}}
	_, addr := startTarn(t, svc, rpc.LendRequests())
	s, err := pb.NewTestServiceClient(dialTarn(t, addr)).FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes() {
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}); err != nil {
			t.Fatal(err)
		}
		if out, err := s.Recv(); err != nil || !bytes.Equal(out.Payload.GetBody(), body(n)) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// A lent response is intact until release, which may be called twice and after an error.
func TestLendResponse(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for _, n := range sizes() {
		var release func()
		out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)}, rpc.LendResponse(&release))
		if err != nil || !bytes.Equal(out.Payload.GetBody(), body(n)) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		release()
		release()
		if raceFactor == 1 && n >= 1<<10 && bytes.Equal(out.Payload.GetBody(), body(n)) {
			t.Errorf("a response of %d bytes is still intact after its release", n)
		}
	}
	var release func()
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5}}, rpc.LendResponse(&release)); err == nil {
		t.Error("no error")
	}
	release()
}

func TestLendResponseOfAStream(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	var release func()
	s, err := pb.NewTestServiceClient(dialTarn(t, addr)).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{
		ResponseParameters: []*pb.ResponseParameters{{Size: 5000}, {Size: 100000}, {Size: 3}}}, rpc.LendResponse(&release))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, n := range []int{5000, 100000, 3} {
		if m, err := s.Recv(); err != nil || len(m.Payload.GetBody()) != n {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A handler that panics, and one that is ended by its deadline, leak no lent memory.
func TestLentRequestsAreFreedOnEveryPath(t *testing.T) {
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		switch in.ResponseSize {
		case 1:
			panic("oh")
		case 2:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, errors.New("no")
	}}
	s, addr := startTarn(t, svc, rpc.LendRequests(), rpc.PanicHandler(func(string, any, []byte) {}))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for i := range int32(3) {
		ctx, cancel := context.WithCancel(ctxFor(t))
		if i == 2 {
			ctx, cancel = context.WithTimeout(ctx, 20e6)
		}
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: i, Payload: payload(50000)}); err == nil {
			t.Error("no error")
		}
		cancel()
	}
	s.Stop() // the pool reports leaks
}

// A response that is a view of its request, and whose call is cancelled while it is sent, leaks no lent memory.
func TestLentResponseOfCancelledCall(t *testing.T) {
	cancels := make(chan context.CancelFunc, 1)
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		(<-cancels)()
		if in.ResponseSize > 0 {
			<-ctx.Done()
		}
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}}
	s, addr := startTarn(t, svc, rpc.LendRequests())
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for i := range int32(4) {
		ctx, cancel := context.WithCancel(ctxFor(t))
		cancels <- cancel
		// The response may come first.
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: i % 2, Payload: payload(3 << 20)}); err != nil {
			wantCode(t, err, codes.Canceled)
		}
	}
	s.Stop() // the pool reports leaks
}

// Requests that ServeHTTP serves are lent like those of Serve.
func TestLendRequestsOfServeHTTP(t *testing.T) {
	var kept [][]byte
	svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		kept = append(kept, in.Payload.GetBody())
		return &pb.SimpleResponse{Payload: in.Payload}, nil // the response is a view as well
	}}
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		kept = nil
		server, addr := startTarn(t, svc, rpc.LendRequests())
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p)))
		for _, n := range sizes() {
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)})
			if err != nil || !bytes.Equal(out.Payload.GetBody(), body(n)) {
				t.Fatalf("%v, %d bytes: %v", p, n, err)
			}
		}
		s, err := c.StreamingInputCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range sizes() {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(n)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.CloseAndRecv(); err != nil {
			t.Fatal(err)
		}
		if raceFactor > 1 {
			continue // the memory has another owner: the race detector would report the read
		}
		server.Stop() // as above
		for _, b := range kept[1:] {
			if len(b) >= 1<<10 && bytes.Equal(b, body(len(b))) {
				t.Errorf("%v: a request of %d bytes is still intact after its handler", p, len(b))
			}
		}
	}
}
