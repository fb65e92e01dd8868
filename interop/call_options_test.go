package interop

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/experimental"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// optionCase is a call with an option.
type optionCase struct {
	option string // of package grpc or experimental
	what   string
	with   setting
	call   func(x *optionScene) string
	want   string
}

// optionCases are calls with one option, or with two where they meet. Each returns what can be observed of it, on both
// sides; want is what grpc-go's own client gives, too.
var optionCases = []optionCase{
	{"CallAuthority", "of the certificate", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.CallAuthority("127.0.0.1")) + x.header(":authority")
	}, "OK :authority=127.0.0.1"},
	{"CallAuthority", "of a stream", setting{}, func(x *optionScene) string {
		return x.stream(1, 10, grpc.CallAuthority("127.0.0.1")) + x.header(":authority")
	}, "1 OK :authority=127.0.0.1"},
	{"CallAuthority", "of another host", setting{}, func(x *optionScene) string { return x.unary(10, grpc.CallAuthority("evil.test")) }, "Unavailable"},

	{"CallContentSubtype", "registered", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.CallContentSubtype("CALL-Option")) + x.header("content-type")
	}, "OK content-type=application/grpc+call-option"},
	{"CallContentSubtype", "not registered", setting{}, func(x *optionScene) string { return x.unary(10, grpc.CallContentSubtype("none")) }, "Internal"},

	{"CallCustomCodec", "", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.CustomCodecCallOption{Codec: oldCodec{optionCodec{}}}) + x.header("content-type")
	}, "Internal content-type=application/grpc"}, // the server gets JSON: the codec's name is not sent
	{"CallCustomCodec", "with CallContentSubtype", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.CallContentSubtype("call-option"), grpc.CustomCodecCallOption{Codec: oldCodec{optionCodec{}}}) + x.header("content-type")
	}, "OK content-type=application/grpc+call-option"},
	{"ForceCodec", "", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.ForceCodec(optionCodec{})) + x.header("content-type")
	}, "OK content-type=application/grpc+call-option"},
	{"ForceCodec", "with CallContentSubtype", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.CallContentSubtype("proto"), grpc.ForceCodec(optionCodec{})) + x.header("content-type")
	}, "Internal content-type=application/grpc+proto"}, // the server gets JSON
	{"ForceCodecV2", "", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.ForceCodecV2(optionCodecV2{})) + x.header("content-type")
	}, "OK content-type=application/grpc+call-option"},

	{"FailFast", "without a server", setting{dials: never}, func(x *optionScene) string { return x.unary(10, grpc.FailFastCallOption{FailFast: true}) }, "Unavailable"},
	{"FailFast", "false, with a server later", setting{dials: thirdTime}, func(x *optionScene) string { return x.unary(10, grpc.FailFastCallOption{}) }, "OK"},
	{"WaitForReady", "false, without a server", setting{dials: never}, func(x *optionScene) string { return x.unary(10, grpc.WaitForReady(false)) }, "Unavailable"},
	{"WaitForReady", "with a server later", setting{dials: thirdTime}, func(x *optionScene) string { return x.unary(10, grpc.WaitForReady(true)) }, "OK"},
	{"WaitForReady", "of a stream", setting{dials: thirdTime}, func(x *optionScene) string { return x.stream(1, 10, grpc.WaitForReady(true)) }, "1 OK"},
	{"WaitForReady", "against the service config", setting{dials: never, config: `"waitForReady":true`}, func(x *optionScene) string {
		return x.unary(10, grpc.WaitForReady(false))
	}, "Unavailable"},
	{"WaitForReady", "by default, against the service config", setting{dials: never, config: `"waitForReady":true`,
		defaults: []grpc.CallOption{grpc.WaitForReady(false)}}, func(x *optionScene) string { return x.unary(10) }, "Unavailable"},
	{"WaitForReady", "by default, for the call not", setting{dials: never, defaults: []grpc.CallOption{grpc.WaitForReady(true)}},
		func(x *optionScene) string { return x.unary(10, grpc.WaitForReady(false)) }, "Unavailable"},

	{"Header", "", setting{}, func(x *optionScene) string {
		md := metadata.MD{"old": nil}
		return x.unary(10, grpc.Header(&md)) + fmt.Sprint(" ", md["x-header"], md["old"] == nil && len(md) > 1)
	}, "OK [h] true"},
	{"Header", "of a stream", setting{}, func(x *optionScene) string {
		md := metadata.MD{}
		return x.stream(1, 10, grpc.Header(&md)) + fmt.Sprint(" ", md["x-header"])
	}, "1 OK [h]"},
	{"Header", "of a status alone", setting{}, func(x *optionScene) string {
		md := metadata.MD{"old": {"1"}}
		return x.refused(grpc.Header(&md)) + fmt.Sprint(" ", md["old"])
	}, "Aborted []"},
	{"Header", "without a server", setting{dials: never}, func(x *optionScene) string {
		md := metadata.MD{"old": {"1"}}
		return x.unary(10, grpc.Header(&md)) + fmt.Sprint(" ", md["old"])
	}, "Unavailable [1]"},
	{"Trailer", "", setting{}, func(x *optionScene) string {
		md := metadata.MD{}
		return x.unary(10, grpc.Trailer(&md)) + fmt.Sprint(" ", md["x-trailer"])
	}, "OK [t]"},
	{"Trailer", "of a stream", setting{}, func(x *optionScene) string {
		md := metadata.MD{}
		return x.stream(1, 10, grpc.Trailer(&md)) + fmt.Sprint(" ", md["x-trailer"])
	}, "1 OK [t]"},
	{"Trailer", "of a status alone", setting{}, func(x *optionScene) string {
		md := metadata.MD{}
		return x.refused(grpc.Trailer(&md)) + fmt.Sprint(" ", md["x-trailer"])
	}, "Aborted [t]"},
	{"Trailer", "without a server", setting{dials: never}, func(x *optionScene) string {
		md := metadata.MD{"old": {"1"}}
		return x.unary(10, grpc.Trailer(&md)) + fmt.Sprint(" ", md["old"])
	}, "Unavailable [1]"},
	{"Peer", "", setting{}, func(x *optionScene) string {
		var p peer.Peer
		return x.unary(10, grpc.Peer(&p)) + fmt.Sprint(" ", p.Addr.String() == x.addr, " ", p.LocalAddr != nil, " ", p.AuthInfo.AuthType())
	}, "OK true true tls"},
	{"Peer", "of a stream", setting{}, func(x *optionScene) string {
		var p peer.Peer
		return x.stream(1, 10, grpc.Peer(&p)) + fmt.Sprint(" ", p.Addr.String() == x.addr)
	}, "1 OK true"},
	{"Peer", "of a status alone", setting{}, func(x *optionScene) string {
		var p peer.Peer
		return x.refused(grpc.Peer(&p)) + fmt.Sprint(" ", p.Addr != nil)
	}, "Aborted true"},
	{"Peer", "without a server", setting{dials: never}, func(x *optionScene) string {
		var p peer.Peer
		return x.unary(10, grpc.Peer(&p)) + fmt.Sprint(" ", p.Addr)
	}, "Unavailable <nil>"},

	{"MaxCallRecvMsgSize", "below the response", setting{}, func(x *optionScene) string { return x.unary(1000, grpc.MaxCallRecvMsgSize(999)) }, "ResourceExhausted"},
	{"MaxCallRecvMsgSize", "above the default", setting{}, func(x *optionScene) string { return x.unary(5<<20, grpc.MaxCallRecvMsgSize(6<<20)) }, "OK"},
	{"MaxCallRecvMsgSize", "of a stream", setting{}, func(x *optionScene) string { return x.stream(2, 1000, grpc.MaxCallRecvMsgSize(999)) }, "0 ResourceExhausted"},
	{"MaxCallRecvMsgSize", "neither it nor the service config", setting{}, func(x *optionScene) string { return x.unary(5 << 20) }, "ResourceExhausted"},
	{"MaxCallRecvMsgSize", "the service config alone", setting{config: `"maxResponseMessageBytes":6000000`}, func(x *optionScene) string { return x.unary(5 << 20) }, "OK"},
	{"MaxCallRecvMsgSize", "above the service config's", setting{config: `"maxResponseMessageBytes":999`}, func(x *optionScene) string {
		return x.unary(1000, grpc.MaxCallRecvMsgSize(2000))
	}, "ResourceExhausted"},
	{"MaxCallRecvMsgSize", "below the service config's", setting{config: `"maxResponseMessageBytes":2000`}, func(x *optionScene) string {
		return x.unary(1000, grpc.MaxCallRecvMsgSize(999))
	}, "ResourceExhausted"},
	{"MaxCallSendMsgSize", "below the request", setting{}, func(x *optionScene) string { return x.unary(1000, grpc.MaxCallSendMsgSize(999)) }, "ResourceExhausted"},
	{"MaxCallSendMsgSize", "of a stream", setting{}, func(x *optionScene) string { return x.stream(1, 1000, grpc.MaxCallSendMsgSize(999)) }, "0 ResourceExhausted"},
	{"MaxCallSendMsgSize", "above the service config's", setting{config: `"maxRequestMessageBytes":999`}, func(x *optionScene) string {
		return x.unary(1000, grpc.MaxCallSendMsgSize(2000))
	}, "ResourceExhausted"},

	{"MaxRetryRPCBufferSize", "of a stream, above what is sent", setting{config: retryTwice}, func(x *optionScene) string {
		return x.gathered(1000, grpc.MaxRetryRPCBufferSize(2000))
	}, "Aborted after 2 attempts"},
	{"MaxRetryRPCBufferSize", "of a stream, below it", setting{config: retryTwice}, func(x *optionScene) string {
		return x.gathered(1000, grpc.MaxRetryRPCBufferSize(500))
	}, "Aborted after 1 attempts"},

	{"OnFinish", "", setting{}, func(x *optionScene) string { return x.finish(func(o grpc.CallOption) { x.unary(10, o) }) }, "<nil>"},
	{"OnFinish", "of a stream", setting{}, func(x *optionScene) string { return x.finish(func(o grpc.CallOption) { x.stream(1, 10, o) }) }, "<nil>"},
	{"OnFinish", "of a status alone", setting{}, func(x *optionScene) string { return x.finish(func(o grpc.CallOption) { x.refused(o) }) }, "Aborted"},
	{"OnFinish", "without a server", setting{dials: never}, func(x *optionScene) string { return x.finish(func(o grpc.CallOption) { x.unary(10, o) }) }, "Unavailable"},
	{"OnFinish", "beside an option that fails", setting{}, func(x *optionScene) string {
		return x.finish(func(o grpc.CallOption) { x.unary(10, grpc.UseCompressor("none"), o) })
	}, "Internal"},
	{"OnFinish", "twice", setting{}, func(x *optionScene) string {
		return x.finish(func(o grpc.CallOption) { x.unary(10, o, o) })
	}, "<nil>,<nil>"},

	{"PerRPCCredentials", "", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.PerRPCCredentials(password{})) + x.header("authorization", "uri")
	}, "OK authorization=secret uri=https://tarn.test/grpc.testing.TestService"},
	{"PerRPCCredentials", "of a stream", setting{}, func(x *optionScene) string {
		return x.stream(1, 10, grpc.PerRPCCredentials(password{})) + x.header("authorization")
	}, "1 OK authorization=secret"},
	{"PerRPCCredentials", "with another authority", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.PerRPCCredentials(password{}), grpc.CallAuthority("127.0.0.1")) + x.header("uri")
	}, "OK uri=https://127.0.0.1/grpc.testing.TestService"},
	{"PerRPCCredentials", "the last of two", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.PerRPCCredentials(password{errors.New("not used")}), grpc.PerRPCCredentials(password{})) + x.header("authorization")
	}, "OK authorization=secret"},
	{"PerRPCCredentials", "that fail", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.PerRPCCredentials(password{errors.New("no password")}))
	}, "Internal"},
	{"PerRPCCredentials", "that fail with a status", setting{}, func(x *optionScene) string {
		return x.unary(10, grpc.PerRPCCredentials(password{status.Error(codes.Unavailable, "later")}))
	}, "Unavailable"},

	{"StaticMethod", "interceptors see it, and generated code sets it", setting{}, func(x *optionScene) string {
		return x.unary(10) + fmt.Sprint(" ", x.static.Load())
	}, "OK true"},
	{"StaticMethod", "not set", setting{}, func(x *optionScene) string {
		err := x.cc.Invoke(testContext(x.t), testpb.TestService_UnaryCall_FullMethodName, &testpb.SimpleRequest{}, &testpb.SimpleResponse{})
		return fmt.Sprint(status.Code(err), " ", x.static.Load())
	}, "OK false"},

	{"UseCompressor", "", setting{}, func(x *optionScene) string { return x.unary(1000, grpc.UseCompressor(gzip.Name)) + x.compression() }, "OK by gzip"},
	{"UseCompressor", "of a stream", setting{}, func(x *optionScene) string {
		return x.stream(2, 1000, grpc.UseCompressor(gzip.Name)) + x.compression()
	}, "2 OK by gzip"},
	{"UseCompressor", "not registered", setting{}, func(x *optionScene) string { return x.unary(1000, grpc.UseCompressor("none")) }, "Internal"},
	{"UseCompressor", "by default, for the call not", setting{defaults: []grpc.CallOption{grpc.UseCompressor(gzip.Name)}}, func(x *optionScene) string {
		return x.unary(1000, grpc.UseCompressor(encoding.Identity)) + x.compression()
	}, "OK as it is"},

	{"AcceptCompressors", "", setting{}, func(x *optionScene) string {
		return x.unary(1000, experimental.AcceptCompressors("call-option", gzip.Name)) + x.header("grpc-accept-encoding")
	}, "OK grpc-accept-encoding=call-option,gzip"},
	{"AcceptCompressors", "of a stream", setting{}, func(x *optionScene) string {
		return x.stream(1, 1000, experimental.AcceptCompressors("call-option")) + x.header("grpc-accept-encoding")
	}, "1 OK grpc-accept-encoding=call-option"},
	{"AcceptCompressors", "and another comes", setting{}, func(x *optionScene) string {
		return x.unary(1000, experimental.AcceptCompressors("call-option"), grpc.UseCompressor(gzip.Name))
	}, "Internal"},
	{"AcceptCompressors", "and another comes on a stream", setting{}, func(x *optionScene) string {
		return x.stream(1, 1000, experimental.AcceptCompressors("call-option"), grpc.UseCompressor(gzip.Name))
	}, "0 Internal"},
	{"AcceptCompressors", "and it comes", setting{}, func(x *optionScene) string {
		return x.unary(1000, experimental.AcceptCompressors(gzip.Name), grpc.UseCompressor(gzip.Name)) + x.compression()
	}, "OK by gzip"},
	{"AcceptCompressors", "not registered", setting{}, func(x *optionScene) string { return x.unary(1000, experimental.AcceptCompressors("none")) }, "InvalidArgument"},
	{"AcceptCompressors", "without a name", setting{}, func(x *optionScene) string {
		return x.unary(1000, experimental.AcceptCompressors(), grpc.UseCompressor(gzip.Name)) + x.compression()
	}, "OK by gzip"},
}

const retryTwice = `"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["ABORTED"]}`

// TestCallOptions: each option of grpc-go for calls has the effect with rpc's client, with AsGRPC and with DialOptions
// that it has with grpc-go's client.
func TestCallOptions(t *testing.T) {
	encoding.RegisterCodec(optionCodec{})
	encoding.RegisterCompressor(renamed{encoding.GetCompressor(gzip.Name)})
	for _, name := range exportedCallOptions(t) {
		if !slices.ContainsFunc(optionCases, func(c optionCase) bool { return c.option == name }) {
			t.Errorf("grpc-go's %s is in no case", name)
		}
	}
	cert, roots := testcert.New(t)
	svc := &optionService{}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cert)), grpc.StatsHandler(svc), grpc.MaxRecvMsgSize(8<<20), grpc.WaitForHandlers(true))
	testpb.RegisterTestServiceServer(s, svc)
	addr := serve(t, s)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name})
	for _, w := range optionWays {
		usual := &optionScene{t: t, addr: addr, svc: svc}
		usual.cc = w.dial(usual, setting{}, creds)
		for _, c := range optionCases {
			x := usual
			if !c.with.usual() {
				x = &optionScene{t: t, addr: addr, svc: svc}
				x.cc = w.dial(x, c.with, creds)
			}
			svc.clear()
			if got := c.call(x); got != c.want {
				t.Errorf("%s %s, %s: %q, want %q", c.option, c.what, w.name, got, c.want)
			}
			if x != usual {
				x.close()
			}
		}
		usual.close()
	}
}

// TestRetryBufferOfUnaryCalls: MaxRetryRPCBufferSize keeps grpc-go from repeating a longer unary request. A client of rpc keeps
// nothing for that, because it encodes the request again, and repeats it.
func TestRetryBufferOfUnaryCalls(t *testing.T) {
	cert, roots := testcert.New(t)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name})
	svc := &optionService{}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cert)), grpc.StatsHandler(svc), grpc.WaitForHandlers(true))
	testpb.RegisterTestServiceServer(s, svc)
	addr := serve(t, s)
	for _, w := range optionWays {
		want := int32(2)
		if w.name == "grpc-go" {
			want = 1
		}
		x := &optionScene{t: t, addr: addr, svc: svc}
		x.cc = w.dial(x, setting{config: retryTwice}, creds)
		svc.clear()
		_, err := x.client().UnaryCall(testContext(t), &testpb.SimpleRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(codes.Aborted)},
			Payload: &testpb.Payload{Body: make([]byte, 1000)}}, grpc.MaxRetryRPCBufferSize(500))
		if n := svc.refused.Load(); status.Code(err) != codes.Aborted || n != want {
			t.Errorf("%s: %v after %d attempts, want %d", w.name, err, n, want)
		}
		x.close()
	}
}

// exportedCallOptions are the functions of grpc-go that return a call option, the deprecated ones included.
func exportedCallOptions(t *testing.T) (names []string) {
	t.Helper()
	dir := moduleDir(t, "google.golang.org/grpc")
	for _, dir := range []string{dir, filepath.Join(dir, "experimental")} {
		eachOption(t, dir, func(fn *ast.FuncDecl, option string) {
			if option == "CallOption" {
				names = append(names, fn.Name.Name)
			}
		})
	}
	if len(names) < 18 {
		t.Fatalf("only %v", names)
	}
	return names
}

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
