package xds_test

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/opentelemetry"
	"github.com/tarn-go/tarn/rpc/xds"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
	"google.golang.org/grpc/status"
	grpcxds "google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
)

// limit bounds each call of the tests; none is expected to take as long.
const limit = 30 * time.Second

// Features of grpc-go that are off unless its environment says otherwise, which it reads when the program starts.
var environment = []string{"GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT=true", "GRPC_EXPERIMENTAL_XDS_EXT_PROC_ON_CLIENT=true"}

// inTests is the variable that says that the environment is set.
const inTests = "TARN_XDS_TESTS"

// TestMain runs the tests in a program with that environment.
func TestMain(m *testing.M) {
	if os.Getenv(inTests) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), append(environment, inTests+"=1")...)
	if err := cmd.Run(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// client is what a test sets of a client.
type client struct {
	creds   credentials.TransportCredentials // nil: none
	metrics grpcotel.MetricsOptions
	idle    time.Duration // 0: half an hour
	state   *stater       // nil: nobody asks
}

// stater is a client's connectivity.
type stater interface{ GetState() connectivity.State }

// made passes a client's connectivity on.
func (c *client) made(s stater) {
	if c.state != nil {
		*c.state = s
	}
}

// dial makes a client of xds:///svc.
type dial func(t *testing.T, bootstrap []byte, of ...client) pb.TestServiceClient

func one(of []client) client {
	var c client
	for _, c = range of {
	}
	if c.creds == nil {
		c.creds = insecure.NewCredentials()
	}
	c.idle = cmp.Or(c.idle, 30*time.Minute)
	return c
}

func dialTarn(t *testing.T, bootstrap []byte, of ...client) pb.TestServiceClient {
	c := one(of)
	cc, err := rpc.NewClient("xds:///svc", rpc.WithResolvers(xds.NewResolver(xds.Bootstrap(bootstrap))),
		rpc.WithTransportCredentials(c.creds), rpc.WithPool(tarntest.NewPool(t)), rpc.WithIdleTimeout(c.idle), opentelemetry.DialOption(grpcotel.Options{MetricsOptions: c.metrics}))
	if err != nil {
		t.Fatal(err)
	}
	c.made(cc)
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	})
	return pb.NewTestServiceClient(cc)
}

func dialGRPC(t *testing.T, bootstrap []byte, of ...client) pb.TestServiceClient {
	c := one(of)
	b, err := grpcxds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("xds:///svc", grpc.WithResolvers(b), grpc.WithTransportCredentials(c.creds), grpc.WithIdleTimeout(c.idle),
		grpcotel.DialOption(grpcotel.Options{MetricsOptions: c.metrics}))
	if err != nil {
		t.Fatal(err)
	}
	c.made(cc)
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	})
	return pb.NewTestServiceClient(cc)
}

// each runs f with Tarn's client and with grpc-go's.
func each(t *testing.T, f func(*testing.T, dial)) {
	t.Run("tarn", func(t *testing.T) { f(t, dialTarn) })
	t.Run("grpc-go", func(t *testing.T) { f(t, dialGRPC) })
}

func startPlane(t *testing.T, resources ...proto.Message) *plane.Plane {
	return startPlaneWith(t, nil, resources...)
}

func startPlaneWith(t *testing.T, opts []plane.Option, resources ...proto.Message) *plane.Plane {
	p, err := plane.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	set(t, p, resources...)
	return p
}

func set(t *testing.T, p *plane.Plane, resources ...proto.Message) {
	t.Helper()
	if err := p.Set(resources...); err != nil {
		t.Fatal(err)
	}
}

// backend is a server that says its name. Calls reach hook first, if it is set.
type backend struct {
	pb.UnimplementedTestServiceServer
	name, addr string
	hits       atomic.Int64
	hook       atomic.Pointer[func(context.Context) error]
	load       float64 // the utilization that calls report; 0: none
	stop       func()
}

func (b *backend) begin(ctx context.Context) error {
	b.hits.Add(1)
	if r := orca.CallMetricsRecorderFromContext(ctx); r != nil && b.load > 0 {
		r.SetApplicationUtilization(b.load)
		r.SetQPS(100)
	}
	if f := b.hook.Load(); f != nil {
		return (*f)(ctx)
	}
	return nil
}

func (b *backend) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Hostname: b.name}, b.begin(ctx)
}

func (b *backend) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, b.begin(ctx)
}

func (b *backend) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	if err := b.begin(s.Context()); err != nil {
		return err
	}
	for {
		if _, err := s.Recv(); err != nil {
			return nil
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(b.name)}}); err != nil {
			return err
		}
	}
}

// startBackends starts n servers, of Tarn and of grpc-go in turns.
func startBackends(t *testing.T, n int) []*backend { return startBackendsWith(t, n, backendOptions{}) }

type backendOptions struct {
	creds credentials.TransportCredentials // nil: none
	loads []float64                        // the utilization that each server reports, in each call and out of band; nil: none
}

func startBackendsWith(t *testing.T, n int, o backendOptions) []*backend {
	bs := make([]*backend, n)
	for i := range bs {
		bs[i] = startBackend(t, i, o)
	}
	return bs
}

func startBackend(t *testing.T, i int, o backendOptions) *backend {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{name: strconv.Itoa(i), addr: lis.Addr().String()}
	type server interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
	}
	ours := []rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true)}
	var theirs []grpc.ServerOption
	if o.creds != nil {
		ours, theirs = append(ours, rpc.Creds(o.creds)), append(theirs, grpc.Creds(o.creds))
	}
	all := orca.NewServerMetricsRecorder()
	if o.loads != nil {
		b.load = o.loads[i]
		all.SetApplicationUtilization(b.load)
		all.SetQPS(100)
		perCall := orca.CallMetricsServerOption(nil)
		ours, theirs = append(ours, rpc.CallMetricsServerOption(perCall)), append(theirs, perCall)
	}
	var s server
	if i%2 == 0 {
		s = rpc.NewServer(ours...)
	} else {
		s = grpc.NewServer(theirs...)
	}
	if o.loads != nil {
		if err := orca.Register(s, orca.ServiceOptions{ServerMetricsProvider: all, MinReportingInterval: 50 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	pb.RegisterTestServiceServer(s, b)
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	b.stop = s.Stop
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b
}

// ask makes a unary call and returns the name of the server.
func ask(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, opts...)
	return r.GetHostname(), err
}

// wantFrom makes a call that server b has to answer.
func wantFrom(t *testing.T, ctx context.Context, c pb.TestServiceClient, b *backend) {
	t.Helper()
	if name, err := ask(ctx, c); err != nil || name != b.name {
		t.Errorf("the answer is %q, %v; want that of %s", name, err, b.name)
	}
}

// eventually calls ok until it is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("not within the time: " + what)
		}
	}
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, want %v", err, code)
	}
}

var errBusy = status.Error(codes.Unavailable, "busy")

// failing makes a server fail the next n calls.
func (b *backend) failing(n int64) {
	var left atomic.Int64
	left.Store(n)
	f := func(context.Context) error {
		if left.Add(-1) >= 0 {
			return errBusy
		}
		return nil
	}
	b.hook.Store(&f)
}
