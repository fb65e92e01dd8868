package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const base = "/grpc.testing.TestService/"

// protocols are the protocols of connect-go's client.
var protocols = []struct {
	name  string
	http1 bool // it can be used over HTTP/1.1
	opts  []connect.ClientOption
}{
	{"connect, proto", true, nil},
	{"connect, json", true, []connect.ClientOption{connect.WithProtoJSON()}},
	{"connect, gzip", true, []connect.ClientOption{connect.WithSendGzip()}},
	{"grpc-web, proto", true, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpc-web, json", true, []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}},
	{"grpc-web, gzip", true, []connect.ClientOption{connect.WithGRPCWeb(), connect.WithSendGzip()}},
	{"grpc, proto", false, []connect.ClientOption{connect.WithGRPC()}},
	{"grpc, json", false, []connect.ClientOption{connect.WithGRPC(), connect.WithProtoJSON()}},
	{"grpc, gzip", false, []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
}

// each runs f for every protocol over every version of HTTP that carries it.
func each(t *testing.T, f func(t *testing.T, h *http.Client, url string, version string, opts []connect.ClientOption)) {
	h := start(t)
	for _, p := range protocols {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			if version == "HTTP/1.1" && !p.http1 {
				continue
			}
			t.Run(p.name+" over "+version, func(t *testing.T) {
				f(t, client(h, version), h.URL+base, version, p.opts)
			})
		}
	}
}

func TestConnectGoUnary(t *testing.T) {
	each(t, func(t *testing.T, h *http.Client, url, version string, opts []connect.ClientOption) {
		c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"UnaryCall", opts...)
		for _, size := range []int{0, 1, 1000, 100000, 3000000} {
			req := connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}})
			req.Header().Set("X-Echo", "hello")
			req.Header().Set("X-Echo-Bin", connect.EncodeBinaryHeader([]byte{0, 1, 255}))
			res, err := c.CallUnary(ctxFor(t), req)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if n := len(res.Msg.GetPayload().GetBody()); n != size {
				t.Errorf("%d bytes came back as %d", size, n)
			}
			if got := res.Header().Get("X-Echo-Header"); got != "hello" {
				t.Errorf("header %q", got)
			}
			if got := res.Trailer().Get("X-Echo-Trailer"); got != "hello" {
				t.Errorf("trailer %q", got)
			}
			bin, err := connect.DecodeBinaryHeader(res.Trailer().Get("X-Echo-Trailer-Bin"))
			if err != nil || string(bin) != "\x00\x01\xff" {
				t.Errorf("binary trailer %q, %v", bin, err)
			}
		}
	})
}

func TestConnectGoErrors(t *testing.T) {
	each(t, func(t *testing.T, h *http.Client, url, version string, opts []connect.ClientOption) {
		c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"UnaryCall", opts...)
		for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
			req := connect.NewRequest(&pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(code), Message: "über %"}})
			req.Header().Set("X-Echo", "hello")
			_, err := c.CallUnary(ctxFor(t), req)
			var ce *connect.Error
			if !errors.As(err, &ce) || ce.Code() != code || ce.Message() != "über %" {
				t.Errorf("%v: %v", code, err)
				continue
			}
			if got := ce.Meta().Get("X-Echo-Trailer"); got != "hello" {
				t.Errorf("%v: metadata %v", code, ce.Meta())
			}
			if len(ce.Details()) != 1 {
				t.Errorf("%v: %d details", code, len(ce.Details()))
				continue
			}
			v, err := ce.Details()[0].Value()
			if info, ok := v.(*errdetails.ErrorInfo); err != nil || !ok || info.Reason != "BECAUSE" {
				t.Errorf("%v: detail %v, %v", code, v, err)
			}
		}
		none := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"NoSuchMethod", opts...)
		if _, err := none.CallUnary(ctxFor(t), connect.NewRequest(&pb.SimpleRequest{})); connect.CodeOf(err) != connect.CodeUnimplemented {
			t.Errorf("an unknown method: %v", err)
		}
		large := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"UnaryCall", opts...)
		req := connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 5<<20)}})
		if _, err := large.CallUnary(ctxFor(t), req); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a message above the limit: %v", err)
		}
	})
}

func TestConnectGoDeadline(t *testing.T) {
	each(t, func(t *testing.T, h *http.Client, url, version string, opts []connect.ClientOption) {
		// The server's end of the deadline: the client's transport does not cut the call.
		c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"UnaryCall", opts...)
		req := connect.NewRequest(&pb.SimpleRequest{FillUsername: true})
		if req.Header().Set("Connect-Timeout-Ms", "50"); len(opts) > 0 {
			req.Header().Set("Grpc-Timeout", "50m")
		}
		ctx, cancel := context.WithCancel(t.Context()) // no deadline: connect-go would send its own
		watchdog := time.AfterFunc(15*time.Second, cancel)
		defer watchdog.Stop()
		if _, err := c.CallUnary(ctx, req); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}

func TestConnectGoStreams(t *testing.T) {
	each(t, func(t *testing.T, h *http.Client, url, version string, opts []connect.ClientOption) {
		t.Run("server", func(t *testing.T) {
			c := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](h, url+"StreamingOutputCall", opts...)
			in := &pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: 5, Message: "at the end"}}
			for _, n := range []int32{1, 100000, 0, 1 << 20} {
				in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: n})
			}
			req := connect.NewRequest(in)
			req.Header().Set("X-Echo", "hello")
			s, err := c.CallServerStream(ctxFor(t), req)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			n := 0
			for s.Receive() {
				if got := len(s.Msg().GetPayload().GetBody()); got != int(in.ResponseParameters[n].Size) {
					t.Errorf("message %d has %d bytes", n, got)
				}
				n++
			}
			var ce *connect.Error
			if n != 4 || !errors.As(s.Err(), &ce) || ce.Code() != connect.CodeNotFound || ce.Message() != "at the end" {
				t.Errorf("%d messages, then %v", n, s.Err())
			}
			if s.ResponseHeader().Get("X-Echo-Header") != "hello" || ce.Meta().Get("X-Echo-Trailer") != "hello" {
				t.Errorf("metadata %v, %v", s.ResponseHeader(), ce.Meta())
			}
		})
		t.Run("client", func(t *testing.T) {
			c := connect.NewClient[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse](h, url+"StreamingInputCall", opts...)
			s := c.CallClientStream(ctxFor(t))
			for range 100 {
				if err := s.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 5000)}}); err != nil {
					t.Fatal(err)
				}
			}
			res, err := s.CloseAndReceive()
			if err != nil || res.Msg.AggregatedPayloadSize != 500000 {
				t.Errorf("%v, %v", res, err)
			}
		})
		t.Run("both", func(t *testing.T) {
			c := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](h, url+"FullDuplexCall", opts...)
			s := c.CallBidiStream(ctxFor(t))
			if version == "HTTP/1.1" {
				s.CloseRequest()
				if _, err := s.Receive(); err == nil {
					t.Error("both directions over HTTP/1.1")
				}
				return
			}
			for i := range 50 {
				if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, i*100)}}); err != nil {
					t.Fatal(err)
				}
				m, err := s.Receive()
				if err != nil || len(m.GetPayload().GetBody()) != i*100 {
					t.Fatalf("%d: %v, %v", i, m, err)
				}
			}
			s.CloseRequest()
			if _, err := s.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("the end: %v", err)
			}
		})
	})
}
