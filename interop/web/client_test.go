package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// connectHandlers is the test service made with connect-go.
func connectHandlers() http.Handler {
	mux := http.NewServeMux()
	echo := func(from, header, trailer http.Header) {
		for _, v := range from.Values("X-Echo") {
			header.Add("X-Echo-Header", v)
			trailer.Add("X-Echo-Trailer", v)
		}
		for _, v := range from.Values("X-Echo-Bin") {
			trailer.Add("X-Echo-Trailer-Bin", v)
		}
	}
	fail := func(s *pb.EchoStatus, from http.Header) error {
		if s.GetCode() == 0 {
			return nil
		}
		err := connect.NewError(connect.Code(s.Code), errors.New(s.Message))
		if d, derr := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "BECAUSE", Domain: "test"}); derr == nil {
			err.AddDetail(d)
		}
		for _, v := range from.Values("X-Echo") {
			err.Meta().Add("X-Echo-Trailer", v)
		}
		return err
	}
	mux.Handle(base+"UnaryCall", connect.NewUnaryHandler(base+"UnaryCall", func(ctx context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		if err := fail(r.Msg.ResponseStatus, r.Header()); err != nil {
			return nil, err
		}
		if r.Msg.FillUsername {
			if _, ok := ctx.Deadline(); !ok {
				return nil, errors.New("no deadline")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		out := connect.NewResponse(&pb.SimpleResponse{Payload: r.Msg.Payload})
		echo(r.Header(), out.Header(), out.Trailer())
		return out, nil
	}))
	mux.Handle(base+"StreamingOutputCall", connect.NewServerStreamHandler(base+"StreamingOutputCall", func(_ context.Context, r *connect.Request[pb.StreamingOutputCallRequest], s *connect.ServerStream[pb.StreamingOutputCallResponse]) error {
		echo(r.Header(), s.ResponseHeader(), s.ResponseTrailer())
		for _, p := range r.Msg.ResponseParameters {
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: bytes.Repeat([]byte{7}, int(p.Size))}}); err != nil {
				return err
			}
		}
		return fail(r.Msg.ResponseStatus, nil)
	}))
	mux.Handle(base+"StreamingInputCall", connect.NewClientStreamHandler(base+"StreamingInputCall", func(_ context.Context, s *connect.ClientStream[pb.StreamingInputCallRequest]) (*connect.Response[pb.StreamingInputCallResponse], error) {
		n := 0
		for s.Receive() {
			n += len(s.Msg().GetPayload().GetBody())
		}
		return connect.NewResponse(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)}), s.Err()
	}))
	mux.Handle(base+"FullDuplexCall", connect.NewBidiStreamHandler(base+"FullDuplexCall", func(_ context.Context, s *connect.BidiStream[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
		echo(s.RequestHeader(), s.ResponseHeader(), s.ResponseTrailer())
		for {
			m, err := s.Receive()
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
	}))
	return mux
}

// eachClient runs f with Tarn's client of another protocol against a foreign server.
func eachClient(t *testing.T, f func(t *testing.T, c pb.TestServiceClient, major int)) {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	for _, s := range []struct {
		name    string
		handler http.Handler
		p       rpc.Protocol
	}{
		{"Connect to connect-go", connectHandlers(), rpc.Connect},
		{"gRPC-Web to connect-go", connectHandlers(), rpc.GRPCWeb},
	} {
		for _, major := range []int{1, 2} {
			name := s.name + " over HTTP/1.1"
			if major == 2 {
				name = s.name + " over HTTP/2"
			}
			t.Run(name, func(t *testing.T) {
				h := httptest.NewUnstartedServer(s.handler)
				h.Config.Protocols = both
				h.Start()
				t.Cleanup(h.Close)
				pool := tarntest.NewPool(t)
				opts := []rpc.DialOption{rpc.WithPool(pool), rpc.WithProtocol(s.p)}
				if major == 2 {
					rt := &h2http.Transport{DisableCompression: true, Config: h2http.Config{Pool: pool}}
					t.Cleanup(rt.CloseIdleConnections)
					opts = append(opts, rpc.WithRoundTripper(rt))
				} else {
					opts = append(opts, rpc.WithTransportCredentials(insecure.NewCredentials()))
				}
				cc, err := rpc.NewClient(h.URL, opts...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cc.Close() })
				f(t, pb.NewTestServiceClient(cc), major)
			})
		}
	}
}

func TestClientUnary(t *testing.T) {
	eachClient(t, func(t *testing.T, c pb.TestServiceClient, major int) {
		for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			for _, size := range []int{0, 1, 1000, 100000, 3000000} {
				ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "hello", "x-echo-bin", "\x00\x01\xff")
				var head, trail metadata.MD
				out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}, append(opts, grpc.Header(&head), grpc.Trailer(&trail))...)
				if err != nil {
					t.Fatalf("%d bytes: %v", size, err)
				}
				if n := len(out.GetPayload().GetBody()); n != size {
					t.Errorf("%d bytes came back as %d", size, n)
				}
				if got := head["x-echo-header"]; len(got) != 1 || got[0] != "hello" {
					t.Errorf("header %v", head)
				}
				if got := trail["x-echo-trailer-bin"]; len(got) != 1 || got[0] != "\x00\x01\xff" {
					t.Errorf("trailer %v", trail)
				}
			}
		}
	})
}

func TestClientErrors(t *testing.T) {
	eachClient(t, func(t *testing.T, c pb.TestServiceClient, major int) {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			var trail metadata.MD
			ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "hello")
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(code), Message: "über %"}}, grpc.Trailer(&trail))
			st := status.Convert(err)
			if st.Code() != code || st.Message() != "über %" || len(trail["x-echo-trailer"]) != 1 {
				t.Errorf("%v: %v, %v", code, err, trail)
			}
			if d := st.Details(); len(d) != 1 || d[0].(*errdetails.ErrorInfo).Reason != "BECAUSE" {
				t.Errorf("%v: details %v", code, d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillUsername: true}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("after the deadline: %v", err)
		}
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil && status.Code(err) != codes.Unimplemented {
			t.Errorf("a method that may not be there: %v", err)
		}
	})
}

func TestClientStreams(t *testing.T) {
	eachClient(t, func(t *testing.T, c pb.TestServiceClient, major int) {
		in := &pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: 5, Message: "at the end"}}
		for _, n := range []int32{1, 100000, 0, 1 << 20} {
			in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: n})
		}
		out, err := c.StreamingOutputCall(metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "hello"), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range in.ResponseParameters {
			if m, err := out.Recv(); err != nil || len(m.GetPayload().GetBody()) != int(p.Size) {
				t.Errorf("a message of %d bytes: %v", p.Size, err)
			}
		}
		_, err = out.Recv()
		if st := status.Convert(err); st.Code() != codes.NotFound || st.Message() != "at the end" {
			t.Errorf("the end: %v", err)
		}
		if head, _ := out.Header(); len(head["x-echo-header"]) != 1 || len(out.Trailer()["x-echo-trailer"]) != 1 {
			t.Errorf("metadata %v, %v", head, out.Trailer())
		}
		send, err := c.StreamingInputCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := send.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 5000)}}); err != nil {
				t.Fatal(err)
			}
		}
		if sum, err := send.CloseAndRecv(); err != nil || sum.AggregatedPayloadSize != 500000 {
			t.Errorf("%v, %v", sum, err)
		}
		if major == 1 {
			return
		}
		both, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if err := both.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, i*100)}}); err != nil {
				t.Fatal(err)
			}
			if m, err := both.Recv(); err != nil || len(m.GetPayload().GetBody()) != i*100 {
				t.Fatalf("%d: %v", i, err)
			}
		}
		both.CloseSend()
		if _, err := both.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	})
}
