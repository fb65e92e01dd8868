package interop

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// env is the environment of a case.
type env struct {
	cc     client
	tc     testpb.TestServiceClient
	redial func(t *testing.T) client
}

// cases are the sixteen of grpc-go's suite that need no cloud, by their names in
// gRPC's interop test descriptions.
var cases = []struct {
	name string
	run  func(ctx context.Context, t *testing.T, e env)
}{
	{"empty_unary", plain(interop.DoEmptyUnaryCall)},
	{"large_unary", plain(interop.DoLargeUnaryCall)},
	{"client_streaming", plain(interop.DoClientStreaming)},
	{"server_streaming", plain(interop.DoServerStreaming)},
	{"ping_pong", plain(interop.DoPingPong)},
	{"empty_stream", plain(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", plain(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", plain(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", plain(interop.DoCancelAfterFirstResponse)},
	{"status_code_and_message", plain(interop.DoStatusCodeAndMessage)},
	{"special_status_message", plain(interop.DoSpecialStatusMessage)},
	{"custom_metadata", plain(interop.DoCustomMetadata)},
	{"unimplemented_method", unimplementedMethod},
	{"unimplemented_service", func(ctx context.Context, t *testing.T, e env) {
		interop.DoUnimplementedService(ctx, testpb.NewUnimplementedServiceClient(e.cc))
	}},
	{"rpc_soak", func(ctx context.Context, t *testing.T, e env) {
		for range soakIterations {
			soak(ctx, t, e.tc)
		}
	}},
	{"channel_soak", func(ctx context.Context, t *testing.T, e env) {
		for range soakIterations {
			cc := e.redial(t)
			soak(ctx, t, testpb.NewTestServiceClient(cc))
			if err := cc.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}},
}

func plain(f func(context.Context, testpb.TestServiceClient, ...grpc.CallOption)) func(context.Context, *testing.T, env) {
	return func(ctx context.Context, t *testing.T, e env) { f(ctx, e.tc) }
}

// unimplementedMethod is the suite's DoUnimplementedMethod, which takes no other
// ClientConn than grpc-go's.
func unimplementedMethod(ctx context.Context, t *testing.T, e env) {
	err := e.cc.Invoke(ctx, "/grpc.testing.TestService/UnimplementedCall", nil, nil)
	if status.Code(err) != codes.Unimplemented {
		t.Fatalf("got %v, want UNIMPLEMENTED", err)
	}
}

// The soak cases of the suite wait a second between calls; these make the same
// calls without the wait.
const (
	soakIterations   = 20
	soakRequestSize  = 271828
	soakResponseSize = 314159
)

func soak(ctx context.Context, t *testing.T, tc testpb.TestServiceClient) {
	t.Helper()
	out, err := tc.UnaryCall(ctx, &testpb.SimpleRequest{ResponseType: testpb.PayloadType_COMPRESSABLE,
		ResponseSize: soakResponseSize, Payload: interop.ClientNewPayload(testpb.PayloadType_COMPRESSABLE, soakRequestSize)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Payload.Body); n != soakResponseSize {
		t.Fatalf("got %d bytes, want %d", n, soakResponseSize)
	}
}

func TestInterop(t *testing.T) {
	for _, sec := range securities(t) {
		for _, p := range pairings() {
			t.Run(sec.name+"/"+p.name, func(t *testing.T) {
				for _, c := range cases {
					t.Run(c.name, func(t *testing.T) {
						addr := start(t, p.make(t, sec))
						cc := p.dial(t, addr, sec)
						c.run(testContext(t), t, env{cc, testpb.NewTestServiceClient(cc),
							func(t *testing.T) client { return p.dial(t, addr, sec) }})
					})
				}
			})
		}
	}
}
