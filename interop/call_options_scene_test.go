package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// This file holds the clients, the service, the codec and the credentials that call_options_test.go tries options on.

// optionWays are the ways to make a call with grpc-go's options.
var optionWays = []struct {
	name string
	dial func(x *optionScene, s setting, creds credentials.TransportCredentials) grpc.ClientConnInterface
}{
	{"grpc-go", func(x *optionScene, s setting, creds credentials.TransportCredentials) grpc.ClientConnInterface {
		return x.stock(x.addr, append(x.interceptors(s), grpc.WithTransportCredentials(creds), grpc.WithDefaultServiceConfig(s.serviceConfig()),
			grpc.WithContextDialer(s.dialer()), grpc.WithConnectParams(atOnce))...)
	}},
	{"rpc", func(x *optionScene, s setting, creds credentials.TransportCredentials) grpc.ClientConnInterface {
		return x.tarn(s, creds, rpc.WithDefaultCallOptions(s.defaults...), rpc.WithUnaryInterceptor(x.intercept))
	}},
	{"AsGRPC", func(x *optionScene, s setting, creds credentials.TransportCredentials) grpc.ClientConnInterface {
		return rpc.AsGRPC(x.tarn(s, creds, rpc.WithDefaultCallOptions(s.defaults...), rpc.WithUnaryInterceptor(x.intercept)))
	}},
	{"DialOptions", func(x *optionScene, s setting, creds credentials.TransportCredentials) grpc.ClientConnInterface {
		return x.stock("passthrough:///elsewhere", append(x.interceptors(s), rpc.DialOptions(x.tarn(s, creds))...)...)
	}},
}

var atOnce = grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond}, MinConnectTimeout: 20 * time.Second}

// setting is what a client of a case has beside the options of the call.
type setting struct {
	config   string // of the methods, in the service config
	defaults []grpc.CallOption
	dials    dials
}

// dials says which attempts to connect succeed.
type dials uint8

const (
	always dials = iota
	thirdTime
	never
)

func (s setting) usual() bool { return s.config == "" && s.defaults == nil && s.dials == always }

func (s setting) dialer() func(context.Context, string) (net.Conn, error) {
	var n atomic.Int32
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if s.dials == never || s.dials == thirdTime && n.Add(1) < 3 {
			return nil, errors.New("no server")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
}

func (s setting) serviceConfig() string {
	if s.config == "" {
		return "{}"
	}
	return `{"methodConfig":[{"name":[{}],` + s.config + `}]}`
}

// optionScene is one client of a case.
type optionScene struct {
	t      *testing.T
	addr   string
	svc    *optionService
	cc     grpc.ClientConnInterface
	closes []func() error
	static atomic.Bool
}

func (x *optionScene) stock(target string, opts ...grpc.DialOption) grpc.ClientConnInterface {
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		x.t.Fatal(err)
	}
	x.closes = append(x.closes, cc.Close)
	return cc
}

func (x *optionScene) tarn(s setting, creds credentials.TransportCredentials, opts ...rpc.DialOption) *rpc.ClientConn {
	cc, err := rpc.NewClient(x.addr, append(opts, rpc.WithPool(tarntest.NewPool(x.t)), rpc.WithTransportCredentials(creds),
		rpc.WithDefaultServiceConfig(s.serviceConfig()), rpc.WithContextDialer(s.dialer()), rpc.WithConnectParams(atOnce))...)
	if err != nil {
		x.t.Fatal(err)
	}
	x.closes = append(x.closes, cc.Close)
	return cc
}

func (x *optionScene) interceptors(s setting) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(s.defaults...), grpc.WithUnaryInterceptor(x.intercept)}
}

func (x *optionScene) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	x.static.Store(slices.Contains(opts, grpc.StaticMethod()))
	return next(ctx, method, req, reply, cc, opts...)
}

func (x *optionScene) close() {
	for _, f := range slices.Backward(x.closes) {
		if err := f(); err != nil {
			x.t.Error(err)
		}
	}
}

func (x *optionScene) client() testpb.TestServiceClient { return testpb.NewTestServiceClient(x.cc) }

// unary makes a call whose request and response have a payload of size bytes, and returns its code.
func (x *optionScene) unary(size int, opts ...grpc.CallOption) string {
	out, err := x.client().UnaryCall(testContext(x.t), &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}, opts...)
	if err == nil && len(out.Payload.Body) != size {
		return fmt.Sprintf("%d bytes", len(out.Payload.Body))
	}
	return status.Code(err).String()
}

// refused makes a call that ends with ABORTED and without a message.
func (x *optionScene) refused(opts ...grpc.CallOption) string {
	_, err := x.client().UnaryCall(testContext(x.t), &testpb.SimpleRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(codes.Aborted)}}, opts...)
	return status.Code(err).String()
}

// stream sends n messages and receives them back, and returns how many came and the code.
func (x *optionScene) stream(n, size int, opts ...grpc.CallOption) string {
	got := 0
	err := func() error {
		s, err := x.client().FullDuplexCall(testContext(x.t), opts...)
		if err != nil {
			return err
		}
		for range n {
			if err := s.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}); err != nil && err != io.EOF {
				return err
			}
			if _, err := s.Recv(); err != nil {
				return err
			}
			got++
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		if _, err := s.Recv(); err != io.EOF {
			return err
		}
		return nil
	}()
	return fmt.Sprint(got, " ", status.Code(err))
}

// gathered sends a message on a stream that the server ends with ABORTED when it has received it.
func (x *optionScene) gathered(size int, opts ...grpc.CallOption) string {
	s, err := x.client().StreamingInputCall(testContext(x.t), opts...)
	if err == nil {
		err = s.Send(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}})
	}
	if err == nil {
		_, err = s.CloseAndRecv()
	}
	return fmt.Sprintf("%v after %d attempts", status.Code(err), x.svc.gathered.Load())
}

// finish makes a call with OnFinish and returns the errors that its function was called with.
func (x *optionScene) finish(call func(grpc.CallOption)) string {
	var seen []string
	call(grpc.OnFinish(func(err error) {
		if err == nil {
			seen = append(seen, "<nil>")
			return
		}
		seen = append(seen, status.Code(err).String())
	}))
	return strings.Join(seen, ",")
}

// header is the named fields of the last request's header, as the server saw them.
func (x *optionScene) header(names ...string) (out string) {
	x.svc.mu.Lock()
	defer x.svc.mu.Unlock()
	for _, name := range names {
		out += " " + name + "=" + strings.Join(x.svc.header[name], ",")
	}
	return out
}

// compression is that of the last request.
func (x *optionScene) compression() string {
	x.svc.mu.Lock()
	defer x.svc.mu.Unlock()
	if c := x.svc.compression; c != "" && c != encoding.Identity {
		return " by " + c
	}
	return " as it is"
}

// optionService returns what it gets, and keeps the last request's header.
type optionService struct {
	testpb.UnimplementedTestServiceServer
	gathered    atomic.Int32 // streams that were ended with ABORTED
	refused     atomic.Int32 // unary calls that ended as they asked
	mu          sync.Mutex
	header      metadata.MD
	compression string
}

func (s *optionService) clear() {
	s.gathered.Store(0)
	s.refused.Store(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header, s.compression = nil, ""
}

func (s *optionService) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (s *optionService) HandleConn(context.Context, stats.ConnStats)                     {}
func (s *optionService) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (s *optionService) HandleRPC(_ context.Context, e stats.RPCStats) {
	if h, ok := e.(*stats.InHeader); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.header, s.compression = h.Header, h.Compression
	}
}

func (s *optionService) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "t")); err != nil {
		return nil, err
	}
	if in.ResponseStatus != nil {
		s.refused.Add(1)
		return nil, status.Error(codes.Code(in.ResponseStatus.Code), "as asked for")
	}
	return &testpb.SimpleResponse{Payload: in.Payload}, grpc.SetHeader(ctx, metadata.Pairs("x-header", "h"))
}

func (s *optionService) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	stream.SetTrailer(metadata.Pairs("x-trailer", "t"))
	if err := stream.SetHeader(metadata.Pairs("x-header", "h")); err != nil {
		return err
	}
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

func (s *optionService) StreamingInputCall(stream testpb.TestService_StreamingInputCallServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	s.gathered.Add(1)
	return status.Error(codes.Aborted, "received")
}

// optionCodec is JSON under a name of its own.
type optionCodec struct{}

func (optionCodec) Name() string                       { return "call-option" }
func (optionCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (optionCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

type optionCodecV2 struct{ c optionCodec }

func (optionCodecV2) Name() string { return "call-option" }
func (c optionCodecV2) Marshal(v any) (mem.BufferSlice, error) {
	b, err := c.c.Marshal(v)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}
func (c optionCodecV2) Unmarshal(data mem.BufferSlice, v any) error {
	return c.c.Unmarshal(data.Materialize(), v)
}

// oldCodec is a codec of grpc-go's oldest interface.
type oldCodec struct{ optionCodec }

func (oldCodec) String() string { return "call-option" }

// renamed is a compressor under a name of its own.
type renamed struct{ encoding.Compressor }

func (renamed) Name() string { return "call-option" }

// password is per-RPC credentials that need TLS.
type password struct{ err error }

func (p password) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	return map[string]string{"authorization": "secret", "uri": uri[0]}, p.err
}
func (password) RequireTransportSecurity() bool { return true }
