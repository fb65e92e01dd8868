package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/test/bufconn"
)

func fastBackoff() rpc.DialOption {
	return rpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 5 * time.Second,
		Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: 20 * time.Millisecond}})
}

func waitState(t *testing.T, cc *rpc.ClientConn, want connectivity.State) {
	t.Helper()
	ctx := ctxFor(t)
	for s := cc.GetState(); s != want; s = cc.GetState() {
		if !cc.WaitForStateChange(ctx, s) {
			t.Fatalf("the state stays %v, want %v", s, want)
		}
	}
}

func TestConnectivityAndReconnect(t *testing.T) {
	lis := listen(t)
	addr := lis.Addr().String()
	lis.Close()
	cc := dialTarn(t, addr, fastBackoff())
	if s := cc.GetState(); s != connectivity.Idle {
		t.Fatal(s)
	}
	c := pb.NewTestServiceClient(cc)
	_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.Unavailable)
	waitState(t, cc, connectivity.TransientFailure)

	// A call with WaitForReady waits until there is a server.
	got := make(chan error, 1)
	go func() {
		_, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.WaitForReady(true))
		got <- err
	}()
	lis, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	go s.Serve(lis)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	waitState(t, cc, connectivity.Ready)

	s.Stop()
	waitState(t, cc, connectivity.Idle)
	lis, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s = rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	go s.Serve(lis)
	defer s.Stop()
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	cc.Close()
	waitState(t, cc, connectivity.Shutdown)
	_, err = c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.Canceled)
	if err := cc.Close(); !errors.Is(err, rpc.ErrClientConnClosing) {
		t.Fatal(err)
	}
}

func TestWaitForReadyEndsWithItsDeadline(t *testing.T) {
	lis := listen(t)
	addr := lis.Addr().String()
	lis.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := pb.NewTestServiceClient(dialTarn(t, addr, fastBackoff())).EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
	wantCode(t, err, codes.DeadlineExceeded)
}

func TestBufconnHealthAndReflection(t *testing.T) {
	lis := bufconn.Listen(1 << 16)
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	h := health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	go s.Serve(lis)
	defer s.Stop()
	cc := dialTarn(t, "passthrough:///bufnet", rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if addr != "bufnet" {
			return nil, errors.New("dialled " + addr)
		}
		return lis.DialContext(ctx)
	}))
	out, err := healthpb.NewHealthClient(cc).Check(ctxFor(t), &healthpb.HealthCheckRequest{})
	if err != nil || out.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(out, err)
	}
	rs, err := reflectpb.NewServerReflectionClient(cc).ServerReflectionInfo(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := rs.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	list, err := rs.Recv()
	if err != nil || len(list.GetListServicesResponse().GetService()) != 4 {
		t.Fatal(list, err)
	}
	rs.CloseSend()
	if _, err := rs.Recv(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestUnixSocket(t *testing.T) {
	faultnet.NeedsTCP(t, "a Unix socket")
	path := t.TempDir() + "/s"
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	go s.Serve(lis)
	defer s.Stop()
	if _, err := pb.NewTestServiceClient(dialTarn(t, "unix:"+path)).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
}

// TestUnixAddressesForADialer: a dialer gets the addresses of sockets as grpc-go's does.
func TestUnixAddressesForADialer(t *testing.T) {
	for target, want := range map[string]string{
		"unix:/tmp/s":              "unix:///tmp/s",
		"unix:///tmp/s":            "unix:///tmp/s",
		"unix:s":                   "unix:s",
		"unix-abstract:s":          "unix:@s",
		"passthrough:///unix:///s": "unix:///s",
	} {
		got := make(chan string, 2)
		dial := func(_ context.Context, addr string) (net.Conn, error) {
			select {
			case got <- addr:
			default:
			}
			return nil, errors.New("not there")
		}
		for name, cc := range map[string]grpc.ClientConnInterface{
			"tarn":    dialTarn(t, target, rpc.WithContextDialer(dial)),
			"grpc-go": dialGRPC(t, target, grpc.WithContextDialer(dial)),
		} {
			_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.Unavailable)
			if addr := <-got; addr != want {
				t.Errorf("%s: the dialer gets %q for %q, want %q", name, addr, target, want)
			}
			for len(got) > 0 {
				<-got
			}
		}
	}
}

// onceListener counts how often it is closed.
type onceListener struct {
	net.Listener
	accepts chan struct{} // gets a value before each Accept
	closed  atomic.Int32
}

func (l *onceListener) Accept() (net.Conn, error) {
	l.accepts <- struct{}{}
	return l.Listener.Accept()
}

func (l *onceListener) Close() error {
	l.closed.Add(1)
	return l.Listener.Close()
}

// TestListenersAreClosedOnce, because those of programs may panic when they are closed twice.
func TestListenersAreClosedOnce(t *testing.T) {
	for name, stop := range map[string]func(*rpc.Server){"Stop": (*rpc.Server).Stop, "GracefulStop": (*rpc.Server).GracefulStop} {
		s := rpc.NewServer()
		lis := &onceListener{Listener: listen(t), accepts: make(chan struct{}, 1)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		<-lis.accepts
		stop(s)
		if err := <-served; err != nil || lis.closed.Load() != 1 {
			t.Errorf("%s: closed %d times, %v", name, lis.closed.Load(), err)
		}
		s.Stop()
	}
}

// GracefulStop waits for a running call, which succeeds; new ones do not begin.
func TestGracefulStop(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		close(began)
		<-release
		return &pb.SimpleResponse{}, nil
	}}
	for _, p := range []struct {
		name string
		dial func(t testing.TB, addr string) grpc.ClientConnInterface
	}{{"tarn", tarnClient}, {"grpc", grpcClient}} {
		t.Run(p.name, func(t *testing.T) {
			began, release = make(chan struct{}), make(chan struct{})
			s, addr := startTarn(t, svc)
			c := pb.NewTestServiceClient(p.dial(t, addr))
			got := make(chan error, 1)
			go func() {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				got <- err
			}()
			<-began
			stopped := make(chan struct{})
			go func() {
				s.GracefulStop()
				close(stopped)
			}()
			select {
			case <-stopped:
				t.Fatal("stopped with a call in progress")
			case <-time.After(20 * time.Millisecond):
			}
			close(release)
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			<-stopped
			_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.Unavailable)
		})
	}
}

func TestStopCancelsHandlers(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	s, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	got := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		got <- err
	}()
	<-began
	s.Stop()
	if err := <-ended; err != context.Canceled {
		t.Fatal(err)
	}
	wantCode(t, <-got, codes.Unavailable)
	if err := s.Serve(listen(t)); err != rpc.ErrServerStopped || err != grpc.ErrServerStopped { // libraries compare with grpc-go's
		t.Fatal(err)
	}
}

// TestConnectionAge closes connections by their age during a stream of calls: none of them fails, because
// calls that a server has not begun are made again.
func TestConnectionAge(t *testing.T) {
	_, addr := startTarn(t, &testService{}, rpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond}))
	cc := dialTarn(t, addr)
	c := pb.NewTestServiceClient(cc)
	var lost atomic.Int32
	end := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(end) {
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			lost.Add(1)
			t.Error(err)
		}
	}
}

func TestConnectionIdle(t *testing.T) {
	_, addr := startTarn(t, &testService{}, rpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 30 * time.Millisecond}))
	cc := dialTarn(t, addr)
	cc.Connect()
	waitState(t, cc, connectivity.Ready)
	waitState(t, cc, connectivity.Idle)
	if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
}

// TestGoAwaysSayWhy: both GOAWAYs with which a server ends a connection in order carry why, as grpc-go's do.
func TestGoAwaysSayWhy(t *testing.T) {
	type stopper interface{ GracefulStop() }
	const soon = 20 * time.Millisecond
	for why, c := range map[string]struct {
		params keepalive.ServerParameters
		end    func(stopper)
	}{
		"max_age":       {keepalive.ServerParameters{MaxConnectionAge: soon}, func(stopper) {}},
		"max_idle":      {keepalive.ServerParameters{MaxConnectionIdle: soon}, func(stopper) {}},
		"graceful_stop": {keepalive.ServerParameters{}, stopper.GracefulStop},
	} {
		for name, start := range map[string]func(testing.TB) (stopper, string){
			"tarn": func(t testing.TB) (stopper, string) {
				return startTarn(t, &testService{}, rpc.KeepaliveParams(c.params))
			},
			"grpc": func(t testing.TB) (stopper, string) {
				return startGRPC(t, &testService{}, grpc.KeepaliveParams(c.params))
			},
		} {
			t.Run(name+"/"+why, func(t *testing.T) {
				s, addr := start(t)
				p := rawClient(t, addr)
				ended := make(chan struct{})
				p.fr.WritePing(false, [8]byte{1}) // a server that answers it has begun to serve the connection
				for goAways := 0; goAways < 2; {
					f, err := p.fr.ReadFrame()
					if err != nil {
						t.Fatal(err)
					}
					switch f := f.(type) {
					case *http2.PingFrame:
						if f.IsAck() {
							go func() {
								c.end(s)
								close(ended)
							}()
							break
						}
						p.fr.WritePing(true, f.Data)
					case *http2.GoAwayFrame:
						goAways++
						if got := string(f.DebugData()); got != why || f.ErrCode != http2.ErrCodeNo {
							t.Errorf("GOAWAY %d: %v, %q", goAways, f.ErrCode, got)
						}
					}
				}
				p.nc.Close()
				<-ended
			})
		}
	}
}

func TestRoundRobin(t *testing.T) {
	var hits [3]atomic.Int32
	var addrs []string
	for i := range hits {
		_, addr := startTarn(t, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			hits[i].Add(1)
			return &pb.SimpleResponse{}, nil
		}})
		addrs = append(addrs, addr)
	}
	// The dialer simulates a name with several A records.
	var n atomic.Int32
	cc := dialTarn(t, "dns:///localhost:1", rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addrs[int(n.Add(1))%len(addrs)])
		}))
	c := pb.NewTestServiceClient(cc)
	for range 30 {
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	waitState(t, cc, connectivity.Ready)
}

func TestNewClientErrors(t *testing.T) {
	if _, err := rpc.NewClient("127.0.0.1:1"); !errors.Is(err, rpc.ErrNoTransportSecurity) {
		t.Fatal(err)
	}
	if _, err := rpc.NewClient("xds:///x"); err == nil {
		t.Fatal("xds")
	}
}

// TestGracefulStopWithASilentClient: a client that sends nothing any more since the middle of a reply is waited for two seconds after the
// reply's end.
func TestGracefulStopWithASilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const handler = time.Second
		began, left := make(chan struct{}), make(chan struct{})
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
		pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			grpc.SendHeader(ctx, metadata.Pairs("a", "b"))
			close(began)
			<-left
			return &pb.SimpleResponse{}, nil
		}})
		l := newPipes()
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		nc, err := l.dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		go func() {
			var out, block bytes.Buffer
			fr := http2.NewFramer(&out, nil)
			enc := hpack.NewEncoder(&block)
			for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: pb.TestService_UnaryCall_FullMethodName},
				{Name: ":authority", Value: "a"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}} {
				enc.WriteField(f)
			}
			out.WriteString(http2.ClientPreface)
			fr.WriteSettings()
			fr.WriteSettingsAck()
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
			fr.WriteData(1, true, make([]byte, 5))
			nc.Write(out.Bytes())
			io.Copy(io.Discard, nc)
		}()
		<-began
		begun := time.Now()
		time.AfterFunc(handler, func() { close(left) })
		s.GracefulStop()
		if took := time.Since(begun); took > handler+2*time.Second {
			t.Errorf("after %v", took)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
