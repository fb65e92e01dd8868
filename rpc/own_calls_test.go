package rpc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// producing is a balancer that gives its SubConn to the calls whose context asks for it.
const producing = "rpc_test_producing"

type producingPick struct{ sc balancer.SubConn }

// builderKey is of the balancer.ProducerBuilder in a call's context.
type builderKey struct{}

func (p producingPick) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if b, ok := info.Ctx.Value(builderKey{}).(balancer.ProducerBuilder); ok {
		p.sc.GetOrBuildProducer(b)
	}
	if to, ok := info.Ctx.Value(subConnKey{}).(*balancer.SubConn); ok {
		*to = p.sc
	}
	return balancer.PickResult{SubConn: p.sc}, nil
}

var _ = func() bool {
	balancer.Register(base.NewBalancerBuilder(producing, firstReady(func(sc balancer.SubConn) balancer.Picker { return producingPick{sc} }), base.Config{}))
	return true
}()

// subConnKey is of a *balancer.SubConn in a call's context, which is set to the SubConn picked.
type subConnKey struct{}

// connOfProducer is the builder of a producer that does nothing; it keeps what the producer makes its calls on, and
// counts how often it is stopped.
type connOfProducer struct {
	cc    grpc.ClientConnInterface
	stops atomic.Int32
}

func (p *connOfProducer) Build(cc any) (balancer.Producer, func()) {
	p.cc = cc.(grpc.ClientConnInterface)
	return nil, func() { p.stops.Add(1) }
}

// TestProducersStop: a producer that its balancer has not released is stopped, once, when the client becomes IDLE or
// is closed, as grpc-go stops it.
func TestProducersStop(t *testing.T) {
	const timeout = 30 * time.Second
	for _, c := range []struct {
		name string
		end  func(*rpc.ClientConn) error
	}{
		{"idle", func(cc *rpc.ClientConn) error {
			<-time.After(2*timeout + time.Second)
			synctest.Wait()
			if got := cc.GetState(); got != connectivity.Idle {
				return fmt.Errorf("the client is %v", got)
			}
			return nil
		}},
		{"closed", (*rpc.ClientConn).Close},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				pb.RegisterTestServiceServer(s, &testService{})
				cc := dialPiped(t, s, rpc.WithIdleTimeout(timeout), rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
				b := &connOfProducer{}
				if _, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(t.Context(), builderKey{}, b), &pb.Empty{}); err != nil {
					t.Fatal(err)
				}
				if n := b.stops.Load(); n != 0 {
					t.Fatalf("the producer of a READY connection was stopped %d times", n)
				}
				if err := c.end(cc); err != nil {
					t.Fatal(err)
				}
				if n := b.stops.Load(); n != 1 {
					t.Errorf("the producer was stopped %d times, want 1", n)
				}
			})
		})
	}
}

// TestProducerOfAShutDownSubConn: a producer that is built on a SubConn that has been shut down is stopped: no change of the
// state follows that would stop it, and a balancer need not release it.
func TestProducerOfAShutDownSubConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
		var sc balancer.SubConn
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(t.Context(), subConnKey{}, &sc), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		sc.Shutdown()
		synctest.Wait()
		b := &connOfProducer{}
		_, release := sc.GetOrBuildProducer(b)
		if n := rpc.Producers(sc); n != 0 {
			t.Errorf("the SubConn keeps %d producers, which its balancer need not release", n)
		}
		if n := b.stops.Load(); n != 1 {
			t.Errorf("the producer was stopped %d times, want 1", n)
		}
		err := b.cc.Invoke(t.Context(), pb.TestService_EmptyCall_FullMethodName, &pb.Empty{}, &pb.Empty{})
		wantCode(t, err, codes.Unavailable)
		release()
		if n := b.stops.Load(); n != 1 {
			t.Errorf("the released producer was stopped %d times, want 1", n)
		}
	})
}

// callingBuilder is the builder of a producer that makes a call while it is built.
type callingBuilder func(grpc.ClientConnInterface)

func (f *callingBuilder) Build(cc any) (balancer.Producer, func()) {
	(*f)(cc.(grpc.ClientConnInterface))
	return nil, func() {}
}

// TestProducerCallsWhileItIsBuilt: the builder of a producer may make calls, and the connection may be lost meanwhile.
func TestProducerCallsWhileItIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
		built := false
		var b callingBuilder = func(on grpc.ClientConnInterface) {
			p := pb.NewTestServiceClient(on)
			if _, err := p.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
				t.Error(err)
			}
			s.Stop()
			synctest.Wait() // until the loss waits for the SubConn, or has been recorded
			_, err := p.EmptyCall(t.Context(), &pb.Empty{})
			if status.Code(err) != codes.Unavailable {
				t.Errorf("a call on the lost connection: %v", err)
			}
			built = true
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(ctx, builderKey{}, &b), &pb.Empty{})
		wantCode(t, err, codes.Unavailable)
		if !built {
			t.Error("the producer has not been built")
		}
	})
}

// TestProducerStreamsAndIdle: streams of a balancer's producer, which opens one after the other as ORCA's does, count
// as the client's own only until they end, whichever way. A stream of the application keeps its client READY beside
// them; a stream and calls of the producer alone do not.
func TestProducerStreamsAndIdle(t *testing.T) {
	const timeout = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{output: func(in *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
			if len(in.ResponseParameters) > 0 {
				<-stream.Context().Done()
			}
			return status.Error(codes.Unavailable, "the report ends")
		}})
		cc := dialPiped(t, s, rpc.WithIdleTimeout(timeout), rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
		c := pb.NewTestServiceClient(cc)
		reporting, stop := context.WithCancel(t.Context())
		defer stop()
		b := &connOfProducer{}
		if _, err := c.EmptyCall(context.WithValue(t.Context(), builderKey{}, b), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		p := pb.NewTestServiceClient(b.cc)
		lasting := &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{}}}
		stream, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ended, err := p.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = ended.Recv()
			wantCode(t, err, codes.Unavailable)
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := p.StreamingOutputCall(ctx, lasting); err != nil {
				t.Fatal(err)
			}
			cancel() // the stream is not received from
			_, err = p.StreamingOutputCall(ctx, lasting)
			wantCode(t, err, codes.Canceled) // it is not opened
		}
		<-time.After(5*timeout + time.Second)
		synctest.Wait()
		if got := cc.GetState(); got != connectivity.Ready {
			t.Fatalf("with a stream of the application the client is %v", got)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err == nil {
			t.Fatal("a message without a request")
		}
		reports, err := p.StreamingOutputCall(reporting, lasting)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			<-time.After(timeout / 3)
			if _, err := p.EmptyCall(t.Context(), &pb.Empty{}); err != nil && cc.GetState() == connectivity.Ready {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := cc.GetState(); got != connectivity.Idle {
			t.Fatalf("without calls of the application the client is %v", got)
		}
		stop() // as a balancer does that is closed
		_, err = reports.Recv()
		wantCode(t, err, codes.Canceled)
	})
}

// unhealthy is a health service whose watches fail.
type unhealthy struct {
	healthpb.UnimplementedHealthServer
	watches atomic.Int32
}

func (u *unhealthy) Watch(*healthpb.HealthCheckRequest, healthpb.Health_WatchServer) error {
	u.watches.Add(1)
	return status.Error(codes.Unavailable, "no health today")
}

// TestHealthChecksDoNotKeepAClient: a client whose health checks fail and are repeated becomes IDLE without calls of
// the application.
func TestHealthChecksDoNotKeepAClient(t *testing.T) {
	const timeout = 30 * time.Minute // longer than any pause between two checks
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		h := &unhealthy{}
		healthpb.RegisterHealthServer(s, h)
		cc := dialPiped(t, s, rpc.WithIdleTimeout(timeout),
			rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
		cc.Connect()
		<-time.After(2*timeout + time.Second)
		synctest.Wait()
		if got, n := cc.GetState(), h.watches.Load(); got != connectivity.Idle || n < 5 {
			t.Errorf("after two timeouts and %d health checks the client is %v", n, got)
		}
	})
}
