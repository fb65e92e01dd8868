package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
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

// Calls are tried again by the retry policy, streams until their first message.
func TestWebClientRetries(t *testing.T) {
	var n atomic.Int32
	svc := &testService{output: func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error {
		n.Add(1)
		return status.Error(codes.Unavailable, "not now")
	}, unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		previous := n.Add(1) - 1
		if md, _ := metadata.FromIncomingContext(ctx); previous > 0 && !slices.Equal(md["grpc-previous-rpc-attempts"], []string{fmt.Sprint(previous)}) {
			return nil, status.Errorf(codes.InvalidArgument, "grpc-previous-rpc-attempts of attempt %d is %q", previous, md["grpc-previous-rpc-attempts"])
		}
		if previous < 2 {
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
		if n.Load() != 4 {
			t.Errorf("%d attempts of a stream", n.Load())
		}
	}, rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Unavailable}}))
}

// roundTrips is a round tripper that answers with its functions, in turns, and then with the next one.
type roundTrips struct {
	mu    sync.Mutex
	first []func() error
	next  http.RoundTripper
	n     int
}

func (r *roundTrips) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	n := r.n
	r.n++
	r.mu.Unlock()
	if n < len(r.first) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, r.first[n]()
	}
	return r.next.RoundTrip(req)
}

// TestWebClientProgress: how far a failed request got decides on another attempt, as with gRPC. One that the server has refused unseen is
// repeated once without a policy, and a call that waits for the server has not used up the attempts of its policy.
func TestWebClientProgress(t *testing.T) {
	refused := func() error { return &h2.StreamError{Code: h2.RefusedStream} }
	away := func() error { return &h2.GoAwayError{} }
	lost := func() error { return io.ErrUnexpectedEOF }
	unreachable := func() error { return &net.OpError{Op: "dial", Err: errors.New("no route")} }
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	_, addr := startTarn(t, &testService{})
	for _, c := range []struct {
		name   string
		first  []func() error
		policy string
		opts   []grpc.CallOption
		code   codes.Code
		n      int // requests
	}{
		{"refused", []func() error{refused}, "{}", nil, codes.OK, 2},
		{"refused twice", []func() error{refused, refused}, "{}", nil, codes.Unavailable, 2},
		{"going away", []func() error{away}, "{}", nil, codes.OK, 2},
		{"lost", []func() error{lost}, "{}", nil, codes.Unavailable, 1},
		{"lost, with a policy", []func() error{lost}, policy, nil, codes.OK, 2},
		{"refused and lost, with a policy", []func() error{refused, lost}, policy, nil, codes.OK, 3},
		{"unreachable", []func() error{unreachable}, "{}", nil, codes.Unavailable, 1},
		{"unreachable and lost, with a policy", []func() error{unreachable, unreachable, unreachable, lost}, policy, []grpc.CallOption{grpc.WaitForReady(true)}, codes.OK, 5},
	} {
		for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
			t.Run(fmt.Sprint(c.name, "/", p), func(t *testing.T) {
				rt := &roundTrips{first: c.first, next: http.DefaultTransport}
				connect := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond}}
				cc, err := rpc.NewClient("http://"+addr, rpc.WithProtocol(p), rpc.WithRoundTripper(rt), rpc.WithDefaultServiceConfig(c.policy), rpc.WithConnectParams(connect))
				if err != nil {
					t.Fatal(err)
				}
				defer cc.Close()
				_, err = pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, c.opts...)
				wantCode(t, err, c.code)
				if rt.n != c.n {
					t.Errorf("%d requests, want %d", rt.n, c.n)
				}
			})
		}
	}
}
