package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// service echoes, and answers with metadata and errors that the request asks for.
type service struct {
	pb.UnimplementedTestServiceServer
}

func echoMetadata(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("x-echo"); len(v) > 0 {
		grpc.SetHeader(ctx, metadata.Pairs("x-echo-header", v[0]))
		grpc.SetTrailer(ctx, metadata.Pairs("x-echo-trailer", v[0]))
	}
	if v := md.Get("x-echo-bin"); len(v) > 0 {
		grpc.SetTrailer(ctx, metadata.Pairs("x-echo-trailer-bin", v[0]))
	}
}

func (service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

func (service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	echoMetadata(ctx)
	if s := in.GetResponseStatus(); s.GetCode() != 0 {
		st, err := status.New(codes.Code(s.Code), s.Message).WithDetails(&errdetails.ErrorInfo{Reason: "BECAUSE", Domain: "test"})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	if in.FillUsername { // waits for its end
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (service) StreamingOutputCall(in *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	echoMetadata(out.Context())
	for _, p := range in.ResponseParameters {
		if err := out.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: bytes.Repeat([]byte{7}, int(p.Size))}}); err != nil {
			return err
		}
	}
	if s := in.GetResponseStatus(); s.GetCode() != 0 {
		return status.Error(codes.Code(s.Code), s.Message)
	}
	return nil
}

func (service) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	n := 0
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
		}
		if err != nil {
			return err
		}
		n += len(m.Payload.GetBody())
	}
}

func (service) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	echoMetadata(s.Context())
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: m.Payload}); err != nil {
			return err
		}
	}
}

// start serves the service by net/http: HTTP/1.1 and, over TLS, HTTP/2.
func start(t *testing.T, opts ...rpc.ServerOption) *httptest.Server {
	t.Helper()
	s := rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t))}, opts...)...)
	pb.RegisterTestServiceServer(s, service{})
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// listen serves the service by Serve and returns its address.
func listen(t *testing.T, opts ...rpc.ServerOption) string {
	t.Helper()
	s := rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t))}, opts...)...)
	pb.RegisterTestServiceServer(s, service{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// client connects to h with HTTP/1.1 or HTTP/2.
func client(h *httptest.Server, version string) *http.Client {
	tr := h.Client().Transport.(*http.Transport).Clone()
	p := new(http.Protocols)
	if version == "HTTP/1.1" {
		p.SetHTTP1(true)
		tr.ForceAttemptHTTP2 = false
		tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	} else {
		p.SetHTTP2(true)
	}
	tr.Protocols = p
	return &http.Client{Transport: tr}
}

// longCtx is the context of tests that start a browser, which takes seconds on a busy machine.
func longCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
