package rpc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// countedName is a balancer, pick_first, that counts in countedCloses how often it is closed.
const countedName = "rpc_test_counted"

var countedCloses atomic.Int32

type countedBuilder struct{}

func (countedBuilder) Name() string { return countedName }

func (countedBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return countedBalancer{balancer.Get("pick_first").Build(cc, o)}
}

type countedBalancer struct{ balancer.Balancer }

func (b countedBalancer) Close() {
	countedCloses.Add(1)
	b.Balancer.Close()
}

var _ = func() bool {
	balancer.Register(countedBuilder{})
	return true
}()

// TestClientIdleTimeout: a client becomes IDLE when no call has begun and no stream was open for the timeout, twice
// that at most, and closes its resolver, its balancer and its connection. Calls and a stream that lasts keep it from that, and
// the timeout counts from the stream's end. The next call makes them again.
func TestClientIdleTimeout(t *testing.T) {
	const timeout = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		lis := newPipes()
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		var dialled, built, closed atomic.Int32
		balancersClosed := countedCloses.Load()
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "pipe"}}})
		r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { built.Add(1) }
		r.CloseCallback = func() { closed.Add(1) }
		cc, err := rpc.NewClient("names:///svc", rpc.WithPool(tarntest.NewPool(t)), rpc.WithResolvers(r),
			rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithIdleTimeout(timeout),
			rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+countedName+`":{}}]}`),
			rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dialled.Add(1)
				return lis.dial(ctx, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			cc.Close()
			s.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		c := pb.NewTestServiceClient(cc)
		call := func() {
			t.Helper()
			if _, err := c.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		after := func(d time.Duration, want connectivity.State) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := cc.GetState(); got != want {
				t.Fatalf("the client is %v, not %v", got, want)
			}
		}
		for round := int32(1); round <= 2; round++ {
			call()
			after(timeout-time.Second, connectivity.Ready)
			call()
			after(timeout-time.Second, connectivity.Ready)
			stream, err := c.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after(5*timeout, connectivity.Ready)
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Fatal("a message without a request")
			}
			after(timeout-time.Second, connectivity.Ready)
			after(timeout+2*time.Second, connectivity.Idle)
			if b, e, d := built.Load(), closed.Load(), dialled.Load(); b != round || e != round || d != round {
				t.Fatalf("round %d: %d resolvers made, %d closed, %d connections", round, b, e, d)
			}
			if n := countedCloses.Load() - balancersClosed; n != round {
				t.Fatalf("round %d: %d balancers closed", round, n)
			}
			if n := s.TransportStats().Conns; n != 0 {
				t.Fatalf("round %d: the server has %d connections", round, n)
			}
		}
	})
}

// TestWaitingCallsKeepAClient: a call that has no stream because it waits keeps its client from IDLE through any
// number of timeouts, whatever it waits for: its resolver is not closed, and its connection stays. Two timeouts
// after the call the client is IDLE.
func TestWaitingCallsKeepAClient(t *testing.T) {
	const timeout = 30 * time.Second
	policy := func(p string) string { return `{"methodConfig":[{"name":[{}],` + p + `}]}` }
	for _, c := range []struct {
		name   string
		config string
		after  string // what comes after five timeouts: "resolver", "connection" or "stream"
	}{
		{name: "resolver", after: "resolver"},
		{name: "connection", after: "connection"},
		{name: "stream", after: "stream"},
		{name: "retry", config: policy(`"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}`)},
		{name: "hedging", config: policy(`"hedgingPolicy":{"maxAttempts":2,"hedgingDelay":"1000s","nonFatalStatusCodes":["UNAVAILABLE"]}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lis := newPipes()
				var calls atomic.Int32
				proceed := make(chan struct{})
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					if calls.Add(1) == 1 && c.config != "" {
						if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", fmt.Sprint((5*timeout).Milliseconds()))); err != nil {
							t.Error(err)
						}
						return nil, status.Error(codes.Unavailable, "later")
					}
					return &pb.SimpleResponse{}, nil
				}})
				served := make(chan error, 1)
				go func() { served <- s.Serve(lis) }()
				var dialled, built atomic.Int32
				r := manual.NewBuilderWithScheme("names")
				state := resolver.State{Addresses: []resolver.Address{{Addr: "pipe"}}}
				if c.after != "resolver" {
					r.InitialState(state)
				}
				r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { built.Add(1) }
				opts := []rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithResolvers(r),
					rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithIdleTimeout(timeout),
					rpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 100 * timeout}),
					rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
						dialled.Add(1)
						switch c.after {
						case "connection":
							<-proceed
						case "stream":
							client, server := net.Pipe()
							go answerOne(server, proceed)
							return client, nil
						}
						return lis.dial(ctx, addr)
					})}
				if c.config != "" {
					opts = append(opts, rpc.WithDefaultServiceConfig(c.config))
				}
				cc, err := rpc.NewClient("names:///svc", opts...)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					cc.Close()
					s.Stop()
					if err := <-served; err != nil {
						t.Error(err)
					}
				}()
				done := make(chan error)
				go func() {
					_, err := pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{})
					done <- err
				}()
				<-time.After(5*timeout - time.Second)
				synctest.Wait()
				if st := cc.GetState(); st == connectivity.Idle || built.Load() != 1 || dialled.Load() > 1 {
					t.Errorf("the client is %v; %d resolvers made, %d connections", st, built.Load(), dialled.Load())
				}
				switch c.after {
				case "resolver":
					r.UpdateState(state)
				default:
					close(proceed)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if b, d := built.Load(), dialled.Load(); b != 1 || d != 1 {
					t.Errorf("%d resolvers made, %d connections", b, d)
				}
				<-time.After(2*timeout + time.Second)
				synctest.Wait()
				if st := cc.GetState(); st != connectivity.Idle {
					t.Errorf("two timeouts after the call the client is %v", st)
				}
			})
		})
	}
}

// answerOne is a server that permits no stream until permit is closed, and then one, which it answers with an
// empty message.
func answerOne(nc net.Conn, permit chan struct{}) {
	defer nc.Close()
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(nc, nc)
	fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	go func() {
		<-permit
		http2.NewFramer(nc, nil).WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	}()
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				fr.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			p := &rawPeer{}
			p.enc = hpack.NewEncoder(&p.buf)
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, EndHeaders: true, BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
			fr.WriteData(f.StreamID, false, prefixed(0, nil))
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, EndHeaders: true, EndStream: true, BlockFragment: p.block("grpc-status", "0")})
		}
	}
}
