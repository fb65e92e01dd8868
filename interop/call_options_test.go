package interop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/experimental"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
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
