package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// backend is a grpc-go server behind the proxy.
type backend struct {
	pb.UnimplementedTestServiceServer
}

func (backend) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.Pairs("h", md.Get("k")[0]))
	grpc.SetTrailer(ctx, metadata.Pairs("t-bin", "\xff"))
	if in.ResponseStatus != nil {
		return nil, status.Error(codes.Code(in.ResponseStatus.Code), in.ResponseStatus.Message)
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (backend) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

type server interface {
	Serve(net.Listener) error
	Stop()
}

func start(t *testing.T, s server) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	return lis.Addr().String()
}

// through returns a grpc-go client that calls a grpc-go server through the proxy.
func through(t *testing.T) (pb.TestServiceClient, *tarn.Pool) {
	t.Helper()
	pool := tarntest.NewPool(t)
	gs := grpc.NewServer(grpc.MaxRecvMsgSize(32 << 20))
	pb.RegisterTestServiceServer(gs, backend{})
	to, err := rpc.NewClient(start(t, gs), rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	addr := start(t, rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true), rpc.MaxRecvMsgSize(32<<20), rpc.UnknownServiceHandler(forwardTo(to))))
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return pb.NewTestServiceClient(cc), pool
}

// testContext has no deadline: how long 10 MiB take that are compressed and checked is the machine's, and what hangs is shown by go test's time limit, with stacks.
func testContext(t *testing.T) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "k", "v")
}

func TestProxyUnary(t *testing.T) {
	c, _ := through(t)
	for _, n := range []int{0, 1, 1000, 100000, 1 << 20, 10 << 20} {
		for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
			want := bytes.Repeat([]byte{7}, n)
			var h, tr metadata.MD
			out, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: want}}, append(opts, grpc.Header(&h), grpc.Trailer(&tr))...)
			if err != nil || !bytes.Equal(out.Payload.Body, want) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if h.Get("h")[0] != "v" || tr.Get("t-bin")[0] != "\xff" {
				t.Fatalf("header %v, trailer %v", h, tr)
			}
		}
	}
	_, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 10, Message: "no ☺"}})
	if st := status.Convert(err); st.Code() != codes.Aborted || st.Message() != "no ☺" {
		t.Fatal(err)
	}
	_, err = c.EmptyCall(testContext(t), &pb.Empty{})
	if status.Code(err) != codes.Unimplemented {
		t.Fatal(err)
	}
}

func TestProxyStream(t *testing.T) {
	c, _ := through(t)
	ctx, cancel := context.WithCancel(testContext(t))
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		want := bytes.Repeat([]byte{byte(i)}, i*3000)
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: want}}); err != nil {
			t.Fatal(err)
		}
		out, err := s.Recv()
		if err != nil || !bytes.Equal(out.Payload.Body, want) {
			t.Fatal(i, err)
		}
	}
	cancel()
	if _, err := s.Recv(); status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
}

// TestProxyCopiesNothing compares the memory a large message takes on its way
// through with what it would take if it were copied.
func TestProxyCopiesNothing(t *testing.T) {
	c, pool := through(t)
	const n = 8 << 20
	if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, n)}}); err != nil {
		t.Fatal(err)
	}
	before := pool.Stats()
	if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, n)}}); err != nil {
		t.Fatal(err)
	}
	large := uint64(0)
	after := pool.Stats()
	for i, cl := range after.Classes {
		if cl.Size == 0 || cl.Size >= n/2 {
			large += cl.Gets - before.Classes[i].Gets
		}
	}
	// One buffer for the request and one for the response to arrive in, and
	// perhaps one more for each to have grown out of.
	if large > 4 {
		t.Fatalf("%d buffers of half the message or more were taken for a request and a response", large)
	}
}

func TestSubtype(t *testing.T) {
	for ct, want := range map[string]string{
		"application/grpc": "", "application/grpc+proto": "proto", "application/grpc+json": "json", "application/grpc-web": "", "application/grpc-web+proto": "proto",
	} {
		if got := subtype(metadata.Pairs("content-type", ct)); got != want {
			t.Errorf("%s: %q", ct, got)
		}
	}
}
