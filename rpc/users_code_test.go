package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// The net of faults in the application's code: every function that a client calls blocks, panics, calls Close, or ends its goroutine, in every
// protocol. Only its own goroutine is affected: other calls, and Close by another goroutine, return.

// userFault is what the application's function does, once.
type userFault struct {
	name string
	do   func(cc *rpc.ClientConn, until <-chan struct{})
}

var faults = []userFault{
	{"close", func(cc *rpc.ClientConn, _ <-chan struct{}) { cc.Close() }},
	{"block", func(_ *rpc.ClientConn, until <-chan struct{}) { <-until }},
	{"exit", func(*rpc.ClientConn, <-chan struct{}) { runtime.Goexit() }},
	{"panic", func(*rpc.ClientConn, <-chan struct{}) { panic("the application's") }},
}

// place is where a client calls the application.
type place struct {
	name string
	// options makes the function hit.
	options func(hit func()) []rpc.DialOption
	// own says that the function runs on a goroutine of the library, so that a panic would end the program.
	own     bool
	webOnly string // why clients of other protocols do not have it
}

// hits are what a test's function does at the first event of a kind.
type eventHit struct {
	is  func(any) bool
	hit func()
}

func (e eventHit) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	if e.is(i) {
		e.hit()
	}
	return ctx
}

func (e eventHit) TagConn(ctx context.Context, i *stats.ConnTagInfo) context.Context {
	if e.is(i) {
		e.hit()
	}
	return ctx
}

func (e eventHit) HandleRPC(_ context.Context, s stats.RPCStats) {
	if e.is(s) {
		e.hit()
	}
}

func (e eventHit) HandleConn(_ context.Context, s stats.ConnStats) {
	if e.is(s) {
		e.hit()
	}
}

func isEvent[T any](v any) bool { _, ok := v.(T); return ok }

func statsPlace[T any](name string, p place) place {
	p.name = name
	p.options = func(hit func()) []rpc.DialOption {
		return []rpc.DialOption{rpc.WithStatsHandler(eventHit{isEvent[T], hit})}
	}
	return p
}

// hitToken are per-RPC credentials.
type hitToken func()

func (h hitToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	h()
	return nil, nil
}

func (hitToken) RequireTransportSecurity() bool { return false }

// hitCodec is protobuf's codec.
type hitCodec struct {
	encoding.CodecV2
	marshal, unmarshal func()
}

func (c hitCodec) Marshal(v any) (mem.BufferSlice, error) {
	c.marshal()
	return c.CodecV2.Marshal(v)
}

func (c hitCodec) Unmarshal(b mem.BufferSlice, v any) error {
	c.unmarshal()
	return c.CodecV2.Unmarshal(b, v)
}

// hitCreds are transport credentials of plaintext.
type hitCreds struct {
	credentials.TransportCredentials
	hit func()
}

func (c hitCreds) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c.hit()
	return c.TransportCredentials.ClientHandshake(ctx, name, nc)
}

func (c hitCreds) Clone() credentials.TransportCredentials { return c }

func nothing() {}

func places() []place {
	return []place{
		{name: "OnFinish", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.OnFinish(func(error) { hit() }))}
		}},
		{name: "per-RPC credentials", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithPerRPCCredentials(hitToken(hit))}
		}},
		{name: "Marshal", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.ForceCodecV2(hitCodec{encoding.GetCodecV2("proto"), hit, nothing}))}
		}},
		{name: "Unmarshal", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.ForceCodecV2(hitCodec{encoding.GetCodecV2("proto"), nothing, hit}))}
		}},
		{name: "interceptor", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{
				rpc.WithUnaryInterceptor(func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
					hit()
					return next(ctx, m, req, reply, cc, o...)
				}),
				rpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, m string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
					hit()
					return next(ctx, d, cc, m, o...)
				}),
			}
		}},
		{name: "dialer", own: true, options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				hit()
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			})}
		}},
		{name: "handshake", own: true, webOnly: "plaintext has none", options: func(hit func()) []rpc.DialOption {
			return []rpc.DialOption{rpc.WithTransportCredentials(hitCreds{insecure.NewCredentials(), hit})}
		}},
		statsPlace[*stats.RPCTagInfo]("TagRPC", place{}),
		statsPlace[*stats.Begin]("Begin", place{}),
		statsPlace[*stats.OutHeader]("OutHeader", place{}),
		statsPlace[*stats.OutPayload]("OutPayload", place{}),
		statsPlace[*stats.InHeader]("InHeader", place{}),
		statsPlace[*stats.InPayload]("InPayload", place{}),
		statsPlace[*stats.InTrailer]("InTrailer", place{}),
		statsPlace[*stats.End]("End", place{}),
		statsPlace[*stats.ConnTagInfo]("TagConn", place{own: true, webOnly: "they report no connections"}),
		statsPlace[*stats.ConnBegin]("ConnBegin", place{own: true, webOnly: "they report no connections"}),
	}
}

// returns fails the test if f does not return.
func returns(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		space := make([]byte, 1<<20)
		t.Fatalf("%s has not returned\n%s", what, space[:runtime.Stack(space, true)])
	}
}

// calls are one unary call and one stream.
var calls = map[string]func(context.Context, pb.TestServiceClient) error{
	"unary": func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(2000)})
		return err
	},
	"server stream": func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 10}}})
		for err == nil {
			_, err = s.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	},
	"client stream": func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		_ = s.Send(&pb.StreamingInputCallRequest{Payload: payload(2000)})
		_, err = s.CloseAndRecv()
		return err
	},
}

// TestFaultsOfTheApplication is the net over places, faults, calls and protocols.
func TestFaultsOfTheApplication(t *testing.T) {
	faultnet.NeedsTCP(t, "dialers of the test's take part")
	_, addr := startTarn(t, &testService{})
	for _, p := range protocols {
		for _, at := range places() {
			if at.webOnly != "" && p != rpc.GRPC {
				continue
			}
			for _, f := range faults {
				for kind, call := range calls {
					own := at.own || (at.name == "OutHeader" || at.name == "OutPayload" && kind == "server stream") && p != rpc.GRPC && kind != "unary" // the request of a stream
					if own && f.name == "panic" {
						continue // it ends the program, as in grpc-go
					}
					t.Run(p.String()+"/"+at.name+"/"+f.name+"/"+kind, func(t *testing.T) { faultOfTheApplication(t, addr, p, at, f, call) })
				}
			}
		}
	}
}

func faultOfTheApplication(t *testing.T, addr string, p rpc.Protocol, at place, f userFault, call func(context.Context, pb.TestServiceClient) error) {
	until := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(until) })
	defer unblock()
	var cc *rpc.ClientConn
	var once atomic.Bool
	reached := make(chan struct{})
	hit := func() {
		if once.CompareAndSwap(false, true) {
			close(reached)
			f.do(cc, until)
		}
	}
	opts := append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(p), fastBackoff()}, at.options(hit)...)
	cc, err := rpc.NewClient(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	c := pb.NewTestServiceClient(cc)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		_ = call(ctx, c)
	}()
	returns(t, "the call's way to the application", func() {
		select {
		case <-reached:
		case <-ended:
		}
	})
	select {
	case <-reached:
	default:
		t.Fatal("the call has not reached the application's function")
	}
	if f.name != "close" && !at.own {
		// Another call is not affected. The connection may be under way with the first call's function.
		returns(t, "another call", func() {
			if err := calls["unary"](ctx, c); err != nil {
				t.Errorf("another call: %v", err)
			}
		})
	}
	returns(t, "Close", func() { cc.Close() })
	unblock()
	cancel()
	returns(t, "the call", func() { <-ended })
}

// closeSeen is a connection whose Close is seen.
type closeSeen struct {
	net.Conn
	closed func()
}

func (c closeSeen) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestExitClosesTheConnection: a function that ends the goroutine that makes a connection does not leave it open.
func TestExitClosesTheConnection(t *testing.T) {
	for _, of := range []struct {
		name   string
		p      rpc.Protocol
		option rpc.DialOption
	}{
		{"handshake", rpc.GRPC, rpc.WithTransportCredentials(hitCreds{insecure.NewCredentials(), runtime.Goexit})},
		{"TagConn", rpc.GRPC, rpc.WithStatsHandler(eventHit{isEvent[*stats.ConnTagInfo], runtime.Goexit})},
		{"ConnBegin", rpc.GRPC, rpc.WithStatsHandler(eventHit{isEvent[*stats.ConnBegin], runtime.Goexit})},
		{"handshake", rpc.Connect, rpc.WithTransportCredentials(hitCreds{credentials.NewTLS(nil), runtime.Goexit})},
	} {
		t.Run(of.p.String()+"/"+of.name, func(t *testing.T) {
			closed := make(chan struct{})
			once := sync.OnceFunc(func() { close(closed) })
			cc, err := rpc.NewClient("passthrough:///server", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(of.p),
				rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
					nc, _ := net.Pipe()
					return closeSeen{nc, once}, nil
				}), of.option)
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			if err := calls["unary"](t.Context(), pb.NewTestServiceClient(cc)); status.Code(err) != codes.Unavailable {
				t.Errorf("the call: %v", err)
			}
			returns(t, "the connection's Close", func() { <-closed })
		})
	}
}

// slowTripper ignores its context.
type slowTripper struct {
	until <-chan struct{}
	body  bool // it answers, with a body that does not end
	begun chan *http.Request
}

func (s *slowTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	s.begun <- r
	if s.body {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {r.Header.Get("Content-Type")}}, Body: slowBody{s.until}, Request: r}, nil
	}
	<-s.until
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, errors.New("too late")
}

type slowBody struct{ until <-chan struct{} }

func (b slowBody) Read([]byte) (int, error) { <-b.until; return 0, io.EOF }
func (b slowBody) Close() error             { <-b.until; return nil }

// TestRoundTripperIgnoresItsContext: calls end with their context, and Close returns, while a round tripper or a response's body does not. The
// memory of the request is the client's again: the round tripper reads an error.
func TestRoundTripperIgnoresItsContext(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, inBody := range []bool{false, true} {
			for kind, call := range calls {
				until := make(chan struct{})
				rt := &slowTripper{until: until, body: inBody, begun: make(chan *http.Request, 2)}
				cc, err := rpc.NewClient("http://127.0.0.1:1", rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt))
				if err != nil {
					t.Fatal(err)
				}
				c := pb.NewTestServiceClient(cc)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 2)
				go func() { ended <- call(ctx, c) }()
				r := <-rt.begun
				cancel()
				returns(t, p.String()+" "+kind, func() { wantCode(t, <-ended, codes.Canceled) })
				if r.GetBody != nil && !inBody {
					if b, err := r.GetBody(); err == nil && b != http.NoBody {
						t.Errorf("%v, %s: the round tripper gets the body again after the call", p, kind)
					}
					if _, err := r.Body.Read(make([]byte, 1)); err == nil {
						t.Errorf("%v, %s: the round tripper reads the body after the call", p, kind)
					}
				}
				go func() { ended <- call(t.Context(), c) }()
				<-rt.begun
				returns(t, "Close", func() { cc.Close() })
				returns(t, p.String()+" "+kind, func() { wantCode(t, <-ended, codes.Canceled) })
				close(until)
			}
		}
	}
}

// tripperFunc is a round tripper that wraps another, as instrumentation does.
type tripperFunc func(*http.Request) (*http.Response, error)

func (f tripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWrappedRoundTripper: calls by a round tripper of the application's get whole messages, and one that ends its goroutine ends its call.
func TestWrappedRoundTripper(t *testing.T) {
	faultnet.NeedsTCP(t, "net/http dials")
	_, addr := startTarn(t, &testService{})
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		var inner http.Transport
		exits := false
		rt := tripperFunc(func(r *http.Request) (*http.Response, error) {
			if exits {
				runtime.Goexit()
			}
			return inner.RoundTrip(r)
		})
		cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt))
		if err != nil {
			t.Fatal(err)
		}
		c := pb.NewTestServiceClient(cc)
		for _, n := range sizes() {
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)})
			if err != nil || !bytes.Equal(out.Payload.GetBody(), body(n)) {
				t.Errorf("%v, %d bytes: %v", p, n, err)
			}
		}
		exits = true
		for kind, call := range calls {
			returns(t, kind, func() {
				if err := call(ctxFor(t), c); status.Code(err) != codes.Unavailable {
					t.Errorf("%v, %s: %v", p, kind, err)
				}
			})
		}
		cc.Close()
		inner.CloseIdleConnections()
	}
}

// TestCloseWhenAConnectionEnds: the stats handler that learns of the end of a connection may call Close.
func TestCloseWhenAConnectionEnds(t *testing.T) {
	s, addr := startTarn(t, &testService{})
	closed := make(chan error, 1)
	var cc *rpc.ClientConn
	cc = dialTarn(t, addr, rpc.WithStatsHandler(eventHit{isEvent[*stats.ConnEnd], func() { closed <- cc.Close() }}))
	_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.OK)
	s.Stop()
	returns(t, "Close", func() {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
