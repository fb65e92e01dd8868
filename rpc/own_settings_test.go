package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// watched is a health service that counts its Watches, and answers them SERVING until fails is set.
type watched struct {
	healthpb.UnimplementedHealthServer
	watches atomic.Int32
	fails   bool
}

func (w *watched) Watch(_ *healthpb.HealthCheckRequest, s healthpb.Health_WatchServer) error {
	w.watches.Add(1)
	if w.fails {
		return status.Error(codes.Unavailable, "not today")
	}
	if err := s.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// noEvents is a stats handler that reports calls.
type noEvents struct{ seen atomic.Int32 }

func (h *noEvents) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	h.seen.Add(1)
	return ctx
}
func (h *noEvents) HandleRPC(context.Context, stats.RPCStats)                         { h.seen.Add(1) }
func (h *noEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *noEvents) HandleConn(context.Context, stats.ConnStats)                       {}

type selectorFunc func(rpc.CallInfo) (rpc.CallConfig, error)

func (f selectorFunc) SelectConfig(i rpc.CallInfo) (rpc.CallConfig, error) { return f(i) }

// TestOwnCallsAreNotTheApplications: the client's own calls, here of Health.Watch, meet nothing that the application has set for its calls.
func TestOwnCallsAreNotTheApplications(t *testing.T) {
	const retry = `"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}`
	events := &noEvents{}
	finished := 0
	for _, c := range []struct {
		name, methods string
		opts          []rpc.DialOption
	}{
		{"a timeout", `"timeout":"0.5s"`, nil},
		{"limits", `"maxRequestMessageBytes":0,"maxResponseMessageBytes":0`, nil},
		{"a hedging policy", `"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.1s","nonFatalStatusCodes":["UNAVAILABLE"]}`, nil},
		{"a codec", "", []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.ForceCodecV2(rpc.RawCodec{}))}},
		{"limits of options", "", []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1), grpc.MaxCallSendMsgSize(0))}},
		{"an authority", "", []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.CallAuthority("elsewhere"))}},
		{"the end", "", []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.OnFinish(func(error) { finished++ }))}},
		{"stats", "", []rpc.DialOption{rpc.WithStatsHandler(events)}},
		{"a failing interceptor", "", []rpc.DialOption{rpc.WithStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, status.Error(codes.Unavailable, "intercepted")
		})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				h := &watched{}
				healthpb.RegisterHealthServer(s, h)
				cfg := ""
				if c.methods != "" {
					cfg = `,"methodConfig":[{"name":[{}],` + c.methods + `}]`
				}
				cc := dialPiped(t, s, append(c.opts, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}`+cfg+`}`))...)
				cc.Connect()
				<-time.After(time.Minute)
				synctest.Wait()
				if got, n := cc.GetState(), h.watches.Load(); got != connectivity.Ready || n != 1 {
					t.Errorf("after %d Watches the client is %v", n, got)
				}
				cc.Close()
			})
		})
	}
	if n := events.seen.Load(); n > 0 || finished > 0 {
		t.Errorf("%d events of statistics, and OnFinish ran %d times", n, finished)
	}
	t.Run("retry tokens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
			h := &watched{fails: true}
			healthpb.RegisterHealthServer(s, h)
			n := 0
			pb.RegisterTestServiceServer(s, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				if n++; n == 1 {
					return nil, status.Error(codes.Unavailable, "once")
				}
				return &pb.SimpleResponse{}, nil
			}})
			cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}],"retryThrottling":{"maxTokens":4,"tokenRatio":0.001},"methodConfig":[{"name":[{}],`+retry+`}]}`))
			b := &connOfProducer{}
			if _, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(t.Context(), builderKey{}, b), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				w, err := healthpb.NewHealthClient(b.cc).Watch(t.Context(), &healthpb.HealthCheckRequest{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = w.Recv()
				wantCode(t, err, codes.Unavailable)
			}
			if h.watches.Load() != 10 {
				t.Errorf("%d attempts of 10 own calls", h.watches.Load())
			}
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
				t.Errorf("the call was not tried again: %v", err)
			}
		})
	})
	t.Run("a config selector", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
			h := &watched{}
			healthpb.RegisterHealthServer(s, h)
			r := manual.NewBuilderWithScheme("passthrough")
			r.InitialState(rpc.SetConfigSelector(resolver.State{Addresses: []resolver.Address{{Addr: "piped"}}}, selectorFunc(func(i rpc.CallInfo) (rpc.CallConfig, error) {
				if !strings.HasPrefix(i.Method, "/grpc.testing.") {
					return rpc.CallConfig{}, status.Error(codes.Unavailable, fmt.Sprintf("no route for %s", i.Method))
				}
				return rpc.CallConfig{}, nil
			})))
			cc := dialPiped(t, s, rpc.WithResolvers(r), rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
			cc.Connect()
			<-time.After(time.Minute)
			synctest.Wait()
			if got, n := cc.GetState(), h.watches.Load(); got != connectivity.Ready || n != 1 {
				t.Errorf("after %d Watches the client is %v", n, got)
			}
		})
	})
}
