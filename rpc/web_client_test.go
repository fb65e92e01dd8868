package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// carrier is what carries the requests of a client of another protocol than gRPC.
type carrier struct {
	name  string
	major int // of HTTP
	// start serves svc and connects a client.
	start func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn
}

var carriers = []carrier{
	{"HTTP1", 1, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc)
		return dialTarn(t, addr, opts...)
	}},
	{"H2C", 2, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc)
		rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true}
		t.Cleanup(rt.CloseIdleConnections)
		cc, err := rpc.NewClient("http://"+addr, append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return cc
	}},
	{"TLS-HTTP2", 2, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		return startWebTLS(t, svc, nil, opts...)
	}},
	{"TLS-HTTP1", 1, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		return startWebTLS(t, svc, []string{"http/1.1"}, opts...)
	}},
}

// startWebTLS serves svc by net/http over TLS, with HTTP/1.1 alone if protos says so.
func startWebTLS(t *testing.T, svc pb.TestServiceServer, protos []string, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	cert, roots := testcert.New(t)
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, svc)
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = protos == nil
	h.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos}
	h.StartTLS()
	t.Cleanup(h.Close)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})
	return dialTarn(t, h.Listener.Addr().String(), append(opts, rpc.WithTransportCredentials(creds))...)
}

// eachWeb runs f with every protocol over every carrier.
func eachWeb(t *testing.T, svc pb.TestServiceServer, f func(t *testing.T, c pb.TestServiceClient, major int), opts ...rpc.DialOption) {
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, by := range carriers {
			t.Run(p.String()+"/"+by.name, func(t *testing.T) {
				cc := by.start(t, svc, append(slices.Clone(opts), rpc.WithProtocol(p))...)
				f(t, pb.NewTestServiceClient(cc), by.major)
			})
		}
	}
}

// asked answers as its request's metadata asks.
func asked(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("x-echo") {
		grpc.SetHeader(ctx, metadata.Pairs("x-head", v))
		grpc.SetTrailer(ctx, metadata.Pairs("x-trail", v))
	}
	for _, v := range md.Get("x-echo-bin") {
		grpc.SetTrailer(ctx, metadata.Pairs("x-trail-bin", v))
	}
	if _, ok := ctx.Deadline(); in.FillUsername && ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s := in.GetResponseStatus(); s.GetCode() != 0 {
		st, err := status.New(codes.Code(s.Code), s.Message).WithDetails(durationpb.New(time.Minute))
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// webSizes are lengths of messages in bytes: below and above what is read at once, and
// what gets a buffer of its own.
var webSizes = []int{0, 1, 1000, 70000, 500000}

func TestWebClientUnary(t *testing.T) {
	for _, call := range []struct {
		name string
		opts []grpc.CallOption
	}{{"proto", nil}, {"json", []grpc.CallOption{grpc.CallContentSubtype("json")}}, {"gzip", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}}} {
		t.Run(call.name, func(t *testing.T) {
			eachWeb(t, &testService{unary: asked}, func(t *testing.T, c pb.TestServiceClient, major int) {
				for _, n := range webSizes {
					ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "a", "x-echo", "b", "x-echo-bin", "\x00\xff")
					var head, trail metadata.MD
					var at peer.Peer
					opts := append([]grpc.CallOption{grpc.Header(&head), grpc.Trailer(&trail), grpc.Peer(&at)}, call.opts...)
					out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(n)}, opts...)
					if err != nil {
						t.Fatalf("%d bytes: %v", n, err)
					}
					if !bytes.Equal(out.GetPayload().GetBody(), body(n)) {
						t.Errorf("%d bytes came back as others", n)
					}
					if !slices.Equal(head["x-head"], []string{"a", "b"}) || !slices.Equal(trail["x-trail"], []string{"a", "b"}) || !slices.Equal(trail["x-trail-bin"], []string{"\x00\xff"}) {
						t.Errorf("header %v, trailer %v", head, trail)
					}
					if at.Addr == nil {
						t.Error("no peer")
					}
				}
			})
		})
	}
}

func TestWebClientStatus(t *testing.T) {
	eachWeb(t, &testService{unary: asked}, func(t *testing.T, c pb.TestServiceClient, major int) {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			var trail metadata.MD
			ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "v")
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(code), Message: "über %\n"}}, grpc.Trailer(&trail))
			st := status.Convert(err)
			if st.Code() != code || st.Message() != "über %\n" || len(trail["x-trail"]) != 1 {
				t.Errorf("%v: %v, trailer %v", code, err, trail)
			}
			if d := st.Details(); len(d) != 1 || d[0].(*durationpb.Duration).Seconds != 60 {
				t.Errorf("%v: details %v", code, d)
			}
		}
		_, err := c.UnimplementedCall(ctxFor(t), &pb.Empty{})
		wantCode(t, err, codes.Unimplemented)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(4<<20 + 1)})
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallRecvMsgSize(100))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallSendMsgSize(100))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallAuthority("other"))
		wantCode(t, err, codes.Unimplemented)
	})
}

func TestWebClientDeadline(t *testing.T) {
	var seen atomic.Bool
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if _, ok := ctx.Deadline(); ok {
			seen.Store(true)
		}
		return asked(ctx, in)
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		seen.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillUsername: true})
		wantCode(t, err, codes.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil || !seen.Load() {
			t.Errorf("%v; the server has seen a deadline: %v", err, seen.Load())
		}
	})
}

func TestWebClientServerStream(t *testing.T) {
	svc := &testService{output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		s.SetHeader(metadata.Pairs("x-head", "h"))
		s.SetTrailer(metadata.Pairs("x-trail", "t"))
		for _, p := range in.ResponseParameters {
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(int(p.Size))}); err != nil {
				return err
			}
		}
		if st := in.GetResponseStatus(); st != nil {
			return status.Error(codes.Code(st.Code), st.Message)
		}
		return nil
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		for _, end := range []codes.Code{codes.OK, codes.NotFound} {
			in := &pb.StreamingOutputCallRequest{}
			if end != codes.OK {
				in.ResponseStatus = &pb.EchoStatus{Code: int32(end), Message: "at the end"}
			}
			for _, n := range webSizes {
				in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: int32(n)})
			}
			s, err := c.StreamingOutputCall(ctxFor(t), in)
			if err != nil {
				t.Fatal(err)
			}
			if head, err := s.Header(); err != nil || !slices.Equal(head["x-head"], []string{"h"}) {
				t.Errorf("header %v, %v", head, err)
			}
			for _, n := range webSizes {
				m, err := s.Recv()
				if err != nil {
					t.Fatalf("%d bytes: %v", n, err)
				}
				if !bytes.Equal(m.GetPayload().GetBody(), body(n)) {
					t.Errorf("%d bytes came as others", n)
				}
			}
			_, err = s.Recv()
			if end == codes.OK && !errors.Is(err, io.EOF) || end != codes.OK && status.Code(err) != end {
				t.Errorf("the end is %v, not %v", err, end)
			}
			if _, again := s.Recv(); again != err {
				t.Errorf("after the end: %v", again)
			}
			if got := s.Trailer(); !slices.Equal(got["x-trail"], []string{"t"}) {
				t.Errorf("trailer %v", got)
			}
		}
	})
}

func TestWebClientClientStream(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		s, err := c.StreamingInputCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range webSizes {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(n)}); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		out, err := s.CloseAndRecv()
		if err != nil || int(out.AggregatedPayloadSize) != sum {
			t.Errorf("%v, %v", out, err)
		}
		if err := s.Send(&pb.StreamingInputCallRequest{}); err == nil {
			t.Error("SendMsg after CloseSend succeeded")
		}
	})
}

func TestWebClientBothDirections(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil { // the server serves
			t.Fatal(err)
		}
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if major == 1 {
			_, err := s.Recv()
			wantCode(t, err, codes.Unimplemented)
			return
		}
		for i := range 30 {
			if err := s.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: int32(i * 1000)}}, Payload: payload(i * 1000)}); err != nil {
				t.Fatal(err)
			}
			m, err := s.Recv()
			if err != nil || len(m.GetPayload().GetBody()) != i*1000 {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		s.CloseSend()
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	})
}

// A stream that is given up, by its context or by Close of the client, ends for both
// sides, wherever it is.
func TestWebClientCancel(t *testing.T) {
	gone := make(chan struct{}, 10)
	svc := &testService{output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		defer func() { gone <- struct{}{} }()
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, by := range carriers {
			t.Run(p.String()+"/"+by.name, func(t *testing.T) {
				cc := by.start(t, svc, rpc.WithProtocol(p))
				c := pb.NewTestServiceClient(cc)
				ctx, cancel := context.WithCancel(ctxFor(t))
				s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
				cancel()
				_, err = s.Recv()
				wantCode(t, err, codes.Canceled)
				<-gone
				s, err = c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := s.Recv()
					ended <- err
				}()
				cc.Close()
				wantCode(t, <-ended, codes.Canceled)
				<-gone
				_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				wantCode(t, err, codes.Canceled)
				_, err = c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				wantCode(t, err, codes.Canceled)
			})
		}
	}
}

// Concurrent calls of one client share connections over HTTP/2 and have their own over
// HTTP/1.1.
func TestWebClientConcurrent(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		ctx := ctxFor(t)
		ended := make(chan error, 16)
		for range cap(ended) {
			go func() {
				for i := range 10 {
					out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(i * 500)})
					if err == nil && len(out.GetPayload().GetBody()) != i*500 {
						err = fmt.Errorf("%d bytes of %d", len(out.GetPayload().GetBody()), i*500)
					}
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// What the protocol cannot honour is refused by name.
func TestWebClientRefusals(t *testing.T) {
	insecureCreds := func() rpc.DialOption { return rpc.WithTransportCredentials(insecure.NewCredentials()) }
	for _, c := range []struct {
		name, target string
		opts         []rpc.DialOption
		want         error
	}{
		{"no credentials", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect)}, rpc.ErrNoTransportSecurity},
		{"resolvers", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithResolvers(manual.NewBuilderWithScheme("x"))}, rpc.ErrProtocol},
		{"a balancer", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.GRPCWeb), insecureCreds(), rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)}, rpc.ErrProtocol},
		{"health checks", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.GRPCWeb), insecureCreds(), rpc.WithDefaultServiceConfig(`{"healthCheckConfig":{"serviceName":""}}`)}, rpc.ErrProtocol},
		{"hedging", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 2})}, rpc.ErrProtocol},
		{"hedging of a method", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":2}}]}`)}, rpc.ErrProtocol},
		{"channelz", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithChannelz(new(rpc.ChannelzRegistry))}, rpc.ErrProtocol},
		{"static windows", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.GRPCWeb), insecureCreds(), rpc.WithStaticStreamWindowSize(1 << 20)}, rpc.ErrProtocol},
		{"GET in gRPC-Web", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.GRPCWeb), insecureCreds(), rpc.WithHTTPGet()}, rpc.ErrProtocol},
		{"GET in gRPC", "localhost:1", []rpc.DialOption{insecureCreds(), rpc.WithHTTPGet()}, rpc.ErrProtocol},
		{"a RoundTripper in gRPC", "localhost:1", []rpc.DialOption{insecureCreds(), rpc.WithRoundTripper(http.DefaultTransport)}, rpc.ErrProtocol},
		{"a RoundTripper and credentials", "http://localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithRoundTripper(http.DefaultTransport)}, rpc.ErrProtocol},
		{"a RoundTripper and no URL", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), rpc.WithRoundTripper(http.DefaultTransport)}, rpc.ErrTarget},
		{"https without TLS", "https://localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds()}, rpc.ErrTarget},
		{"a query", "http://localhost:1/?a", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds()}, rpc.ErrTarget},
		{"another DNS server", "dns://1.1.1.1/localhost", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds()}, rpc.ErrProtocol},
		{"no such protocol", "localhost:1", []rpc.DialOption{rpc.WithProtocol(9), insecureCreds()}, rpc.ErrProtocol},
	} {
		if cc, err := rpc.NewClient(c.target, c.opts...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
			if cc != nil {
				cc.Close()
			}
		}
	}
}

// A URL's path goes before the methods', as with a server behind a prefix.
func TestWebClientPrefix(t *testing.T) {
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, &testService{})
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", s))
	h := httptest.NewServer(mux)
	defer h.Close()
	c := pb.NewTestServiceClient(dialTarn(t, h.URL+"/api/v1/", rpc.WithProtocol(rpc.Connect)))
	if out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}); err != nil || len(out.Payload.Body) != 10 {
		t.Error(err)
	}
}

// waitForReady waits for a server that is not there yet; without it the call fails.
func TestWebClientWaitsForReady(t *testing.T) {
	var up atomic.Bool
	_, addr := startTarn(t, &testService{})
	tried := make(chan struct{}, 100)
	c := pb.NewTestServiceClient(dialTarn(t, "passthrough:///server", rpc.WithProtocol(rpc.Connect), fastBackoff(),
		rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			tried <- struct{}{}
			if !up.Load() {
				return nil, errors.New("not there")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})))
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Unavailable)
	<-tried
	ended := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.WaitForReady(true))
		ended <- err
	}()
	<-tried
	<-tried
	up.Store(true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWebClientRetries(t *testing.T) {
	var n atomic.Int32
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if n.Add(1)%3 != 0 {
			return nil, status.Error(codes.Unavailable, "not now")
		}
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		n.Store(0)
		out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)})
		if err != nil || !bytes.Equal(out.Payload.Body, body(1000)) || n.Load() != 3 {
			t.Errorf("after %d attempts: %v", n.Load(), err)
		}
	}, rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Unavailable}}))
}

// The statistics handlers see a call as they see one of gRPC, but for lengths on the wire.
func TestWebClientStats(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		log := newEventLog()
		_, addr := startTarn(t, &testService{})
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithStatsHandler(log)))
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.take() {
			name, _, _ := strings.Cut(e, " ")
			if !delayedPick(name) { // there is nothing to pick
				got = append(got, name)
			}
		}
		want := []string{"Begin", "OutHeader", "OutPayload", "InHeader", "InPayload", "InTrailer", "End"}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v", p, got)
		}
	}
}

// A method without side effects is called with GET; one with a long request, and every
// other, with POST.
func TestWebClientGet(t *testing.T) {
	const service = "tarn.testing.Lookup"
	fd := &descriptorpb.FileDescriptorProto{
		Name: proto.String("tarn/testing/lookup.proto"), Package: proto.String("tarn.testing"), Syntax: proto.String("proto3"),
		Dependency: []string{pb.File_grpc_testing_messages_proto.Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Lookup"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Find"), InputType: proto.String(".grpc.testing.SimpleRequest"), OutputType: proto.String(".grpc.testing.SimpleResponse"),
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()},
		}, {
			Name: proto.String("Change"), InputType: proto.String(".grpc.testing.SimpleRequest"), OutputType: proto.String(".grpc.testing.SimpleResponse"),
		}}}},
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath(fd.GetName()); err != nil { // -count
		file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatal(err)
		}
		if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
			t.Fatal(err)
		}
	}
	handler := func(srv any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
		in := new(pb.SimpleRequest)
		if err := dec(in); err != nil {
			return nil, err
		}
		return asked(ctx, in)
	}
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Find", Handler: handler}, {MethodName: "Change", Handler: handler}}}, nil)
	methods := make(chan string, 10)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods <- r.Method
		s.ServeHTTP(w, r)
	}))
	defer h.Close()
	cc := dialTarn(t, h.URL, rpc.WithProtocol(rpc.Connect), rpc.WithHTTPGet())
	for _, c := range []struct {
		method string
		size   int
		want   string
		opts   []grpc.CallOption
	}{
		{"Find", 0, "GET", nil}, {"Find", 100, "GET", nil}, {"Find", 100, "GET", []grpc.CallOption{grpc.CallContentSubtype("json")}},
		{"Find", 5000, "GET", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}}, {"Find", 7000, "POST", nil}, {"Find", 1 << 20, "POST", nil}, {"Change", 10, "POST", nil},
	} {
		out := new(pb.SimpleResponse)
		if err := cc.Invoke(ctxFor(t), "/"+service+"/"+c.method, &pb.SimpleRequest{Payload: payload(c.size)}, out, c.opts...); err != nil {
			t.Fatal(err)
		}
		if got := <-methods; got != c.want || !bytes.Equal(out.GetPayload().GetBody(), body(c.size)) {
			t.Errorf("%s with %d bytes was called with %s", c.method, c.size, got)
		}
	}
	err := cc.Invoke(ctxFor(t), "/"+service+"/Find", &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5}}, new(pb.SimpleResponse))
	wantCode(t, err, codes.NotFound)
}

// What a server answers that is not the protocol ends the call with a status that says
// so, and leaves nothing behind.
func TestWebClientHostileAnswers(t *testing.T) {
	ok := http.Header{"Content-Type": {"application/grpc-web+proto"}}
	stream := http.Header{"Content-Type": {"application/connect+proto"}}
	unary := http.Header{"Content-Type": {"application/proto"}}
	jsonError := http.Header{"Content-Type": {"application/json"}}
	for _, c := range []struct {
		name   string
		p      rpc.Protocol
		stream bool
		status int
		header http.Header
		body   string
		code   codes.Code
		says   string
	}{
		{"no status", rpc.GRPCWeb, false, 200, ok, "\x00\x00\x00\x00\x00", codes.Internal, "without a status"},
		{"no message", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "no response message"},
		{"two messages", rpc.GRPCWeb, false, 200, ok, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "another message"},
		{"a status of letters", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: x\n", codes.Internal, "malformed"},
		{"a trailer without a colon", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x04abcd", codes.Internal, "colon"},
		{"a compressed trailer without compression", rpc.GRPCWeb, false, 200, ok, "\x81\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "compressed"},
		{"a message after the end", rpc.GRPCWeb, true, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: 0\n\x00\x00\x00\x00\x00", codes.Internal, "after the end"},
		{"an unknown flag", rpc.GRPCWeb, true, 200, ok, "\x40\x00\x00\x00\x00", codes.Internal, "flag"},
		{"Connect's flag in gRPC-Web", rpc.GRPCWeb, true, 200, ok, "\x02\x00\x00\x00\x02{}", codes.Internal, "flag"},
		{"half a prefix", rpc.GRPCWeb, true, 200, ok, "\x00\x00", codes.Internal, "inside a message"},
		{"a length above the limit", rpc.GRPCWeb, true, 200, ok, "\x00\xff\xff\xff\xff", codes.ResourceExhausted, "larger than max"},
		{"a page", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"text/html"}}, "<p>", codes.Unknown, "text/html"},
		{"no page", rpc.GRPCWeb, false, 404, http.Header{}, "", codes.Unimplemented, "404"},
		{"a status alone", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Status": {"5"}, "Grpc-Message": {"no%20such"}}, "", codes.NotFound, "no such"},
		{"an unknown compression", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Encoding": {"rot13"}}, "", codes.Internal, "rot13"},
		{"an end that is no JSON", rpc.Connect, true, 200, stream, "\x02\x00\x00\x00\x02{]", codes.Internal, "malformed"},
		{"an error without a code", rpc.Connect, true, 200, stream, "\x02\x00\x00\x00\x0c{\"error\":{}}", codes.Unknown, ""},
		{"no end", rpc.Connect, true, 200, stream, "", codes.Internal, "without a status"},
		{"another codec", rpc.Connect, true, 200, http.Header{"Content-Type": {"application/connect+json"}}, "", codes.Unknown, "connect+json"},
		{"JSON for protobuf", rpc.Connect, false, 200, http.Header{"Content-Type": {"application/json"}}, "{}", codes.Unknown, "application/json"},
		{"no protobuf", rpc.Connect, false, 200, unary, "\xff", codes.Internal, "unmarshal"},
		{"an error", rpc.Connect, false, 404, jsonError, `{"code":"not_found","message":"m","details":[{"type":"a.B","value":"!"}]}`, codes.NotFound, "m"},
		{"an error of no known code", rpc.Connect, false, 503, jsonError, `{"code":"tired","message":"m"}`, codes.Unavailable, "m"},
		{"an error that is no JSON", rpc.Connect, false, 403, jsonError, `{`, codes.PermissionDenied, "403"},
		{"a proxy's error", rpc.Connect, false, 502, http.Header{"Content-Type": {"text/html"}}, `bad`, codes.Unavailable, "502"},
		{"an error of a stream in JSON", rpc.Connect, true, 401, jsonError, `{"code":"unauthenticated","message":"who"}`, codes.Unauthenticated, "who"},
		{"bad binary metadata", rpc.Connect, false, 200, http.Header{"Content-Type": {"application/proto"}, "X-Bin": {"!"}}, "", codes.Internal, "x-bin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				for k, vs := range c.header {
					w.Header()[k] = vs
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer h.Close()
			client := pb.NewTestServiceClient(dialTarn(t, h.URL, rpc.WithProtocol(c.p)))
			var err error
			if c.stream {
				s, serr := client.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if serr != nil {
					t.Fatal(serr)
				}
				for err == nil {
					_, err = s.Recv()
				}
			} else {
				_, err = client.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			}
			if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A server of HTTP/1.1 refuses a stream in both directions though the request has no end
// yet. The client of this test does not know the version beforehand.
func TestWebBothDirectionsRefusedByServer(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		rt := &http.Transport{}
		cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt))
		if err != nil {
			t.Fatal(err)
		}
		s, err := pb.NewTestServiceClient(cc).FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.Unimplemented)
		cc.Close()
		rt.CloseIdleConnections()
	}
}

// A library that wants a *grpc.ClientConn gets one that speaks the other protocol.
func TestWebClientAsGRPC(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	stock := rpc.AsGRPC(dialTarn(t, addr, rpc.WithProtocol(rpc.Connect)))
	out, err := pb.NewTestServiceClient(stock).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)})
	if err != nil || len(out.Payload.Body) != 100 {
		t.Error(err)
	}
}
