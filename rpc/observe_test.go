package rpc_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

var (
	_ endpoint.Source = (*rpc.Server)(nil)
	_ endpoint.Source = (*rpc.ClientConn)(nil)
)

// waitsOf is what the calls of a method wait for.
func waitsOf(e endpoint.State, method string) string {
	var all []string
	for _, w := range e.Waits {
		if w.Method == method && w.Calls > 0 && w.Oldest > 0 {
			all = append(all, w.For)
		}
	}
	return strings.Join(all, ", ")
}

// Server and client show their connections, the results of calls, and what running calls wait for.
func TestEndpoint(t *testing.T) {
	held, let := make(chan struct{}), make(chan struct{})
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.FillUsername {
			held <- struct{}{}
			<-let
		}
		if s := in.GetResponseStatus(); s != nil {
			return nil, status.Error(codes.Code(s.Code), s.Message)
		}
		return &pb.SimpleResponse{}, nil
	}}
	s, addr := startTarn(t, svc, rpc.ObserveCalls())
	cc := dialTarn(t, addr, rpc.WithObserveCalls())
	c := pb.NewTestServiceClient(cc)
	const unary, duplex = "/grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService/FullDuplexCall"
	for range 5 {
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5}})
	wantCode(t, err, codes.NotFound)
	ended := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{FillUsername: true})
		ended <- err
	}()
	<-held
	stream, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := waitsOf(cc.Endpoint(), duplex); got != "the application" {
		t.Errorf("a stream of which nothing is received waits for %q", got)
	}
	// One message each way: the server's handler waits for the next.
	if err := stream.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	// The client may receive a call's status before the server has recorded its end, and a handler may run
	// before the client's Open has returned.
	ctx := ctxFor(t)
	for s.Endpoint().Done != 6 || waitsOf(s.Endpoint(), duplex) != "the client's message" || waitsOf(cc.Endpoint(), unary) != "the server's answer" {
		if ctx.Err() != nil {
			t.Fatalf("the server's stream waits for %q, the client's call for %q", waitsOf(s.Endpoint(), duplex), waitsOf(cc.Endpoint(), unary))
		}
		runtime.Gosched()
	}
	server, client := s.Endpoint(), cc.Endpoint()
	for _, e := range []endpoint.State{server, client} {
		if e.Conns != 1 || len(e.Connections) != 1 || e.Streams != 2 || e.Connections[0].RecvWindow <= 0 || !e.Observed {
			t.Errorf("%s: %+v", e.Kind, e)
		}
		if e.Calls != 8 || e.Active != 2 || e.Failed != 1 || e.Done != 6 || e.Seconds <= 0 {
			t.Errorf("%s: %d calls, %d active, %d of %d failed, %g s", e.Kind, e.Calls, e.Active, e.Failed, e.Done, e.Seconds)
		}
		m := e.Methods[0]
		if m.Name != unary || m.Codes["OK"] != 5 || m.Codes["NotFound"] != 1 || m.P99 <= 0 || m.P50 > m.P99 {
			t.Errorf("%s: %+v", e.Kind, m)
		}
		if r := m.Minute; r.Ended != 6 || r.P99 <= 0 || r.P50 > r.P99 {
			t.Errorf("%s: in the last minute %+v", e.Kind, r)
		}
	}
	if server.Kind != "gRPC server" || server.Name != addr || client.Kind != "gRPC client" || client.Name != addr {
		t.Errorf("%q %q, %q %q", server.Kind, server.Name, client.Kind, client.Name)
	}
	if got := waitsOf(server, unary); got != "its handler" {
		t.Errorf("the server's call waits for %q", got)
	}
	close(let)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	if e := cc.Endpoint(); e.Active != 0 || len(e.Waits) != 0 || e.Failed != 1 {
		t.Errorf("after all calls: %+v", e)
	}
}

// A call that is not on a connection says what it waits for: the resolver, a connection, the time of its next attempt.
func TestEndpointOfWaitingCalls(t *testing.T) {
	const unary = "/grpc.testing.TestService/UnaryCall"
	svc, _ := flaky(100, codes.Aborted)
	_, addr := startTarn(t, svc)
	for _, x := range []struct {
		want  string
		state []resolver.Address // nil: the resolver does not answer
		dial  func(context.Context, string) (net.Conn, error)
	}{
		{"the resolver", nil, nil},
		{"a connection", []resolver.Address{{Addr: addr}}, func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{"its next attempt", []resolver.Address{{Addr: addr}}, dialOver(t)},
	} {
		r := manual.NewBuilderWithScheme("names")
		if x.state != nil {
			r.InitialState(resolver.State{Addresses: x.state})
		}
		opts := []rpc.DialOption{rpc.WithResolvers(r), rpc.WithObserveCalls(), rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 2,
			InitialBackoff: time.Hour, MaxBackoff: time.Hour, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}})}
		if x.dial != nil {
			opts = append(opts, rpc.WithContextDialer(x.dial))
		}
		cc := dialTarn(t, "names:///svc", opts...)
		ctx, cancel := context.WithCancel(ctxFor(t))
		ended := make(chan error, 1)
		go func() {
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{})
			ended <- err
		}()
		for waitsOf(cc.Endpoint(), unary) != x.want {
			if ctx.Err() != nil {
				t.Fatalf("the call waits for %q, not %s", waitsOf(cc.Endpoint(), unary), x.want)
			}
			runtime.Gosched()
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled && status.Code(err) != codes.Aborted {
			t.Errorf("%s: %v", x.want, err)
		}
		if e := cc.Endpoint(); e.Calls != 1 || e.Failed != 1 || e.Active != 0 {
			t.Errorf("%s: %d calls, %d failed, %d active", x.want, e.Calls, e.Failed, e.Active)
		}
	}
}

// Calls of ServeHTTP and of clients of other protocols are observed, too; without the option no call is.
func TestEndpointOfWebCalls(t *testing.T) {
	s := rpc.NewServer(rpc.ObserveCalls())
	pb.RegisterTestServiceServer(s, &testService{})
	returned := make(chan struct{}, 10)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		returned <- struct{}{}
	}))
	defer h.Close()
	cc := dialTarn(t, h.URL, rpc.WithProtocol(rpc.Connect), rpc.WithObserveCalls())
	if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	<-returned
	for _, e := range []endpoint.State{s.Endpoint(), cc.Endpoint()} {
		if e.Calls != 1 || e.Done != 1 || e.Failed != 0 || e.Active != 0 {
			t.Errorf("%s: %+v", e.Kind, e)
		}
	}
	if e := dialTarn(t, h.URL, rpc.WithProtocol(rpc.GRPCWeb)).Endpoint(); e.Observed || e.Kind != "gRPC-Web client" {
		t.Errorf("%+v", e)
	}
}
