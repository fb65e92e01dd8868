package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// Options that the protocol does not support are refused by name.
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
		{"an incomplete retry policy", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 2})}, rpc.ErrServiceConfig},
		{"a logger", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithLogger(slog.Default())}, rpc.ErrProtocol},
		{"header lists", "localhost:1", []rpc.DialOption{rpc.WithProtocol(rpc.Connect), insecureCreds(), rpc.WithUnannouncedHeaderListSize(1 << 20)}, rpc.ErrProtocol},
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

// TestWebClientTargets: a client of another protocol takes a name with or without a scheme, a Unix socket and a URL.
func TestWebClientTargets(t *testing.T) {
	faultnet.NeedsTCP(t, "targets have addresses of their own")
	_, addr := startTarn(t, &testService{})
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
	pb.RegisterTestServiceServer(s, &testService{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	defer func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, target := range []string{addr, "dns:///" + addr, "passthrough:///" + addr, "unix:" + socket, "unix://" + socket, "http://" + addr} {
			cc := dialTarn(t, target, rpc.WithProtocol(p))
			if out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}); err != nil || len(out.Payload.Body) != 10 {
				t.Errorf("%v, %s: %v", p, target, err)
			}
		}
	}
}

// A URL's path precedes the methods', as for a server behind a prefix. The client is READY until it is closed.
func TestWebClientPrefix(t *testing.T) {
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, &testService{})
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", http.StripPrefix("/api/v1", s))
	h := httptest.NewServer(mux)
	defer h.Close()
	cc := dialTarn(t, h.URL+"/api/v1/", rpc.WithProtocol(rpc.Connect))
	before := cc.GetState()
	if out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}); err != nil || len(out.Payload.Body) != 10 {
		t.Error(err)
	}
	if st := cc.TransportStats(); st.Conns != 0 {
		t.Errorf("TransportStats counts %d connections: docs/reference/rpc.md says that it counts none", st.Conns)
	}
	h.Close()
	after := cc.GetState()
	cc.Close()
	if end := cc.GetState(); before != connectivity.Ready || after != connectivity.Ready || end != connectivity.Shutdown {
		t.Errorf("the client was %v, %v without its server, and %v when closed", before, after, end)
	}
}

// WaitForReady waits for a server that cannot be reached yet; without it the call fails.
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

// Unary calls are tried again by the retry policy, streams are not.
func TestWebClientRetries(t *testing.T) {
	var n atomic.Int32
	svc := &testService{output: func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error {
		n.Add(1)
		return status.Error(codes.Unavailable, "not now")
	}, unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
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
		n.Store(0)
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		wantCode(t, err, codes.Unavailable)
		if n.Load() != 1 {
			t.Errorf("%d attempts of a stream", n.Load())
		}
	}, rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Unavailable}}))
}
