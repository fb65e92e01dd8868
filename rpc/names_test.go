package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/weightedtarget"
)

// backend is a server that counts its calls.
type backend struct {
	addr string
	hits atomic.Int64
	stop func()
}

func startBackend(t testing.TB, opts ...rpc.ServerOption) *backend {
	b := &backend{}
	s, addr := startTarn(t, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		b.hits.Add(1)
		return &pb.SimpleResponse{}, nil
	}}, opts...)
	b.addr, b.stop = addr, s.Stop
	return b
}

func startBackends(t testing.TB, n int) []*backend {
	bs := make([]*backend, n)
	for i := range bs {
		bs[i] = startBackend(t)
	}
	return bs
}

func stateOf(bs ...*backend) resolver.State {
	var s resolver.State
	for _, b := range bs {
		a := resolver.Address{Addr: b.addr}
		s.Addresses = append(s.Addresses, a)
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
	}
	return s
}

// dialNames dials a target of a manual resolver.
func dialNames(t testing.TB, r *manual.Resolver, balancer string, opts ...rpc.DialOption) *rpc.ClientConn {
	return dialTarn(t, r.Scheme()+":///svc", append([]rpc.DialOption{rpc.WithResolvers(r),
		rpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[%s]}`, balancer))}, opts...)...)
}

// TestBalancers makes calls with the balancers that grpc-go exports.
func TestBalancers(t *testing.T) {
	for _, b := range []struct {
		name, config string
		used         int // of three backends
	}{
		{"pick_first", `{"pick_first":{}}`, 1},
		{"pick_first shuffled", `{"pick_first":{"shuffleAddressList":true}}`, 1},
		{"round_robin", `{"round_robin":{}}`, 3},
		{"least_request", `{"least_request_experimental":{"choiceCount":2}}`, 3},
		{"weighted_target", `{"weighted_target_experimental":{"targets":{"a":{"weight":1,"childPolicy":[{"round_robin":{}}]}}}}`, 0},
		{"the first that is registered", `{"unheard_of":{}},{"round_robin":{}}`, 3},
	} {
		t.Run(b.name, func(t *testing.T) {
			bs := startBackends(t, 3)
			r := manual.NewBuilderWithScheme("names")
			r.InitialState(stateOf(bs...))
			cc := dialNames(t, r, b.config)
			c := pb.NewTestServiceClient(cc)
			used := func() (n int) {
				for _, b := range bs {
					if b.hits.Load() > 0 {
						n++
					}
				}
				return n
			}
			if b.used == 0 {
				// weighted_target needs addresses with a hierarchy.
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				wantCode(t, err, codes.Unavailable)
				return
			}
			for i := 0; i < 100 || used() < b.used && i < 10000; i++ {
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			if used() != b.used {
				t.Errorf("%d of 3 backends were called, want %d", used(), b.used)
			}
		})
	}
}

// Each backend gets the same number of calls, however many callers there are.
func TestRoundRobinIsEven(t *testing.T) {
	bs := startBackends(t, 3)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(bs...))
	cc := dialNames(t, r, `{"round_robin":{}}`)
	c := pb.NewTestServiceClient(cc)
	for touched := 0; touched < len(bs); { // until all are connected
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		touched = 0
		for _, b := range bs {
			touched += int(min(1, b.hits.Load()))
		}
	}
	for _, b := range bs {
		b.hits.Store(0)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i, b := range bs {
		if n := b.hits.Load(); n != 400 {
			t.Errorf("backend %d: %d of 1200 calls", i, n)
		}
	}
}

// TestCallsArePickedOnce: every kind of call is picked once, so that each of two backends gets every other one, as in grpc-go. The stream of a call
// with one request, which is opened with the request, was picked when the call began, too, and the other backend got none.
func TestCallsArePickedOnce(t *testing.T) {
	var hits [2]atomic.Int64
	bs := make([]*backend, len(hits))
	for i := range bs {
		_, addr := startTarn(t, &testService{}, rpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			hits[i].Add(1)
			return h(ctx, in)
		}), rpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			hits[i].Add(1)
			return h(srv, s)
		}))
		bs[i] = &backend{addr: addr}
	}
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(bs...))
	const config = `{"loadBalancingConfig":[{"round_robin":{}}]}`
	for client, cc := range map[string]grpc.ClientConnInterface{
		"tarn":    dialTarn(t, "names:///x", rpc.WithResolvers(r), rpc.WithDefaultServiceConfig(config)),
		"grpc-go": dialGRPC(t, "names:///x", grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(config)),
	} {
		c := pb.NewTestServiceClient(cc)
		for kind, call := range map[string]func() error{
			"unary": func() error {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				return err
			},
			"client stream": func() error {
				s, err := c.StreamingInputCall(ctxFor(t))
				if err == nil {
					_, err = s.CloseAndRecv()
				}
				return err
			},
			"server stream": func() error {
				s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				for err == nil {
					_, err = s.Recv()
				}
				return unlessEOF(err)
			},
			"stream": func() error {
				s, err := c.FullDuplexCall(ctxFor(t))
				if err == nil {
					err = s.CloseSend()
				}
				for err == nil {
					_, err = s.Recv()
				}
				return unlessEOF(err)
			},
		} {
			for touched := 0; touched < len(hits); { // until both are connected
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
				touched = 0
				for i := range hits {
					touched += int(min(1, hits[i].Load()))
				}
			}
			for i := range hits {
				hits[i].Store(0)
			}
			for range 20 {
				if err := call(); err != nil {
					t.Fatalf("%s, %s: %v", client, kind, err)
				}
			}
			if a, b := hits[0].Load(), hits[1].Load(); a != 10 || b != 10 {
				t.Errorf("%s, %s: %d and %d calls", client, kind, a, b)
			}
		}
		for i := range hits {
			hits[i].Store(0)
		}
	}
}

// unlessEOF is err, or nil for the end of a stream.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// No call fails while a resolver changes the addresses.
func TestAddressesChangeUnderLoad(t *testing.T) {
	for _, policy := range []string{`{"round_robin":{}}`, `{"pick_first":{}}`} {
		t.Run(policy, func(t *testing.T) {
			bs := startBackends(t, 6)
			r := manual.NewBuilderWithScheme("names")
			r.InitialState(stateOf(bs[:3]...))
			cc := dialNames(t, r, policy)
			c := pb.NewTestServiceClient(cc)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			var calls atomic.Int64
			for range 16 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)}); err != nil {
							t.Error(err)
							return
						}
						calls.Add(1)
					}
				})
			}
			for i := range 100 {
				r.UpdateState(stateOf(bs[i%4 : i%4+3]...))
				for n := calls.Load() + 20; calls.Load() < n && !t.Failed(); {
					waitABit(t)
				}
			}
			close(stop)
			wg.Wait()
		})
	}
}

// waitABit lets other goroutines run.
func waitABit(t testing.TB) {
	t.Helper()
	tick := time.NewTimer(time.Millisecond)
	<-tick.C
}

// Calls succeed while the resolver's service config names one balancer and then another.
func TestSwitchOfBalancers(t *testing.T) {
	bs := startBackends(t, 2)
	r := manual.NewBuilderWithScheme("names")
	built := make(chan struct{})
	r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { close(built) }
	cc := dialTarn(t, "names:///svc", rpc.WithResolvers(r))
	cc.Connect()
	<-built
	with := func(policy string) {
		s := stateOf(bs...)
		s.ServiceConfig = r.CC().ParseServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, policy))
		if s.ServiceConfig.Err != nil {
			t.Fatal(s.ServiceConfig.Err)
		}
		r.UpdateState(s)
	}
	c := pb.NewTestServiceClient(cc)
	for i := range 20 {
		with([]string{"pick_first", "round_robin"}[i%2])
		for range 10 {
			if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cc.GetState() != connectivity.Ready {
		t.Errorf("the state is %v", cc.GetState())
	}
}

// Calls fail with the resolver's errors until there are addresses.
func TestResolverErrors(t *testing.T) {
	b := startBackend(t)
	r := manual.NewBuilderWithScheme("names")
	r.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
		cc.ReportError(errors.New("the directory is closed"))
	}
	cc := dialTarn(t, "names:///svc", rpc.WithResolvers(r))
	c := pb.NewTestServiceClient(cc)
	_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.Unavailable)
	if !strings.Contains(err.Error(), "the directory is closed") {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.WaitForReady(true))
		done <- err
	}()
	r.UpdateState(stateOf(b))
	if err := <-done; err != nil {
		t.Error(err)
	}
	// An error after addresses does not affect calls.
	r.CC().ReportError(errors.New("closed again"))
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Error(err)
	}
}

// The resolver's config sets a method's deadline, an invalid one is refused, and WithDisableServiceConfig
// ignores it.
func TestResolverServiceConfig(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if at, _ := ctx.Deadline(); time.Until(at) < 15*time.Second { // the test's own is 20 s
			return nil, errors.New("the deadline is the service config's")
		}
		return &pb.SimpleResponse{}, nil
	}})
	const js = `{"methodConfig":[{"name":[{}],"timeout":"10s"}]}`
	for _, c := range []struct {
		name string
		json string
		opts []rpc.DialOption
		want codes.Code
	}{
		{"applied", js, nil, codes.Unknown},
		{"of a newer version", `{"newer":1,"methodConfig":[{"name":[{}],"timeout":"10s"}]}`, nil, codes.Unknown},
		{"disabled", js, []rpc.DialOption{rpc.WithDisableServiceConfig()}, codes.OK},
		{"malformed", `{"methodConfig":7}`, nil, codes.Unavailable},
		{"none", "", nil, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := manual.NewBuilderWithScheme("names")
			r.BuildCallback = func(_ resolver.Target, rc resolver.ClientConn, _ resolver.BuildOptions) {
				s := resolver.State{Addresses: []resolver.Address{{Addr: addr}}}
				if c.json != "" {
					s.ServiceConfig = rc.ParseServiceConfig(c.json)
				}
				_ = rc.UpdateState(s) // the error is for resolvers that can use it
			}
			cc := dialTarn(t, "names:///svc", append(c.opts, rpc.WithResolvers(r))...)
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			wantCode(t, err, c.want)
		})
	}
}

// Compares NewClient's interpretation of targets with grpc-go's.
func TestTargets(t *testing.T) {
	r := manual.NewBuilderWithScheme("mine")
	for _, c := range []struct{ target, canonical, authority string }{
		{"127.0.0.1:50051", "dns:///127.0.0.1:50051", "127.0.0.1:50051"},
		{"DNS:///127.0.0.1:1", "dns:///127.0.0.1:1", "127.0.0.1:1"},
		{"dns:127.0.0.1:1", "dns:///127.0.0.1:1", "127.0.0.1:1"},
		{"dns:///[::1]:1", "dns:///[::1]:1", "[::1]:1"},
		{"dns://8.8.8.8/name", "dns://8.8.8.8/name", "name"},
		{":80", "dns:///:80", "localhost:80"},
		{"passthrough:///a/b c", "passthrough:///a/b c", "a%2Fb%20c"},
		{"unix:/tmp/s", "unix:///tmp/s", "localhost"},
		{"unix:s", "unix:///s", "localhost"},
		{"unix-abstract:name", "unix-abstract:///name", "localhost"},
		{"mine:svc", "mine:///svc", "svc"},
		{"mine://there/svc", "mine://there/svc", "svc"},
		{"xds:18000", "dns:///xds:18000", "xds:18000"},
		{"google-c2p:443", "dns:///google-c2p:443", "google-c2p:443"},
	} {
		cc := dialTarn(t, c.target, rpc.WithResolvers(r))
		stock, err := grpc.NewClient(c.target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(r))
		if err != nil {
			t.Fatal(err)
		}
		defer stock.Close()
		as := rpc.AsGRPC(cc)
		if cc.CanonicalTarget() != c.canonical || stock.CanonicalTarget() != c.canonical || as.CanonicalTarget() != c.canonical {
			t.Errorf("%q: %q, AsGRPC %q, grpc-go %q, want %q", c.target, cc.CanonicalTarget(), as.CanonicalTarget(), stock.CanonicalTarget(), c.canonical)
		}
		if cc.Target() != c.target || as.Target() != c.target {
			t.Errorf("%q: Target %q, AsGRPC's %q", c.target, cc.Target(), as.Target())
		}
	}
	for _, bad := range []string{"", "dns:///", "host:", "unix:", "unix://host/p", "xds:///a", "google-c2p:///a", "nowhere:///a"} {
		if _, err := rpc.NewClient(bad, rpc.WithTransportCredentials(insecure.NewCredentials())); !errors.Is(err, rpc.ErrTarget) {
			t.Errorf("NewClient(%q): %v, want ErrTarget", bad, err)
		}
	}
}

// TestDefaultScheme: a target without a scheme has the one that the program has set, passthrough included. The setting lasts as long as the
// process, so that each is another.
func TestDefaultScheme(t *testing.T) {
	const variable = "TARN_TEST_DEFAULT_SCHEME"
	scheme := os.Getenv(variable)
	if scheme == "" {
		for _, scheme := range []string{"dns", "passthrough", "unix"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDefaultScheme$")
			cmd.Env = append(os.Environ(), variable+"="+scheme)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", scheme, err, out)
			}
		}
		return
	}
	resolver.SetDefaultScheme(scheme)
	for _, target := range []string{"name", "xds:1"} {
		stock, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		stock.Close()
		if cc := dialTarn(t, target); cc.CanonicalTarget() != stock.CanonicalTarget() {
			t.Errorf("%s: %s, grpc-go's %s", target, cc.CanonicalTarget(), stock.CanonicalTarget())
		}
	}
}

// A service config of the caller that is not supported is refused.
func TestServiceConfigErrors(t *testing.T) {
	balancer.Register(base.NewBalancerBuilder("no_settings_test", nil, base.Config{}))
	for _, bad := range []string{
		``, `{`, `[]`, `{} {}`, `{"unknown":1}`,
		`{"loadBalancingConfig":[]}`, `{"loadBalancingConfig":{}}`,
		`{"loadBalancingConfig":[{"pick_first":{},"round_robin":{}}]}`,
		`{"loadBalancingConfig":[{"unheard_of":{}}]}`,
		`{"loadBalancingConfig":[{"rls_experimental":{}}]}`,
		`{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":"yes"}}]}`,
		`{"loadBalancingPolicy":"unheard_of"}`,
		`{"methodConfig":[{"name":[{"method":"m"}]}]}`,
		`{"methodConfig":[{"name":[{"service":"a"},{"service":"a"}]}]}`,
		`{"methodConfig":[{"name":[{}],"timeout":"-1s"}]}`,
		`{"methodConfig":[{"name":[{}],"timeout":"1m"}]}`,
		`{"methodConfig":[{"name":[{}],"timeout":"1.1234567890s"}]}`,
		`{"methodConfig":[{"name":[{}],"timeout":".s"}]}`,
		`{"methodConfig":[{"name":[{}],"maxRequestMessageBytes":-1}]}`,
		`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1}}]}`,
		`{"retryThrottling":{"maxTokens":0,"tokenRatio":1}}`,
		`{"retryThrottling":{"maxTokens":1001,"tokenRatio":1}}`,
		`{"loadBalancingConfig":[{"no_settings_test":{"some":"setting"}}]}`,
		`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":2,` +
			`"retryableStatusCodes":[14]},"hedgingPolicy":{"maxAttempts":2}}]}`,
	} {
		_, err := rpc.NewClient("127.0.0.1:1", rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(bad))
		if !errors.Is(err, rpc.ErrServiceConfig) {
			t.Errorf("%s: %v, want ErrServiceConfig", bad, err)
		}
	}
}
