package web

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/nginxtest"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// nginx starts an nginx that forwards HTTP/1.1 to backend without buffering, and returns its address.
func nginx(t *testing.T, backend string) string {
	t.Helper()
	return nginxtest.Start(t, "", "location / { proxy_pass http://"+backend+
		"; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; proxy_set_header Host $host; }")
}

// Through a proxy that supports only HTTP/1.1 a gRPC client cannot make calls, and a client of the other
// protocols can.
func TestClientThroughNginx(t *testing.T) {
	pool := tarntest.NewPool(t)
	s := rpc.NewServer(rpc.Pool(pool))
	pb.RegisterTestServiceServer(s, service{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	addr := nginx(t, lis.Addr().String())
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		t.Run(p.String(), func(t *testing.T) {
			cc, err := rpc.NewClient(addr, rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(p))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			c := pb.NewTestServiceClient(cc)
			if p == rpc.GRPC {
				if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err == nil {
					t.Error("a gRPC call through nginx's proxy_pass did not fail")
				}
				return
			}
			for _, size := range []int{0, 1000, 1000000} {
				out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}})
				if err != nil || len(out.GetPayload().GetBody()) != size {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
			_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 9, Message: "no"}})
			if st := status.Convert(err); st.Code() != codes.FailedPrecondition || st.Message() != "no" || len(st.Details()) != 1 {
				t.Errorf("%v", err)
			}
			in := &pb.StreamingOutputCallRequest{}
			for range 20 {
				in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: 30000})
			}
			down, err := c.StreamingOutputCall(ctxFor(t), in)
			for n := 0; err == nil; n++ {
				if _, err = down.Recv(); errors.Is(err, io.EOF) && n != 20 {
					t.Errorf("%d messages", n)
				}
			}
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			up, err := c.StreamingInputCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := up.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 30000)}}); err != nil {
					t.Fatal(err)
				}
			}
			if sum, err := up.CloseAndRecv(); err != nil || sum.AggregatedPayloadSize != 600000 {
				t.Errorf("%v, %v", sum, err)
			}
		})
	}
}
