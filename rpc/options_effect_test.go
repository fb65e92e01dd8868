package rpc_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// Tests of options that are no other test's subject. TestOptionsHaveEffects of interop checks that each option is in a test.

// TestForcedServerCodec: with ForceServerCodec and ForceServerCodecV2 a server uses its codec for every content subtype.
func TestForcedServerCodec(t *testing.T) {
	for _, opt := range []rpc.ServerOption{rpc.ForceServerCodec(jsonV1{"forced"}), rpc.ForceServerCodecV2(jsonV2{"forced"})} {
		_, addr := startTarn(t, &testService{}, opt)
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		for _, subtype := range []string{"forced", "another"} {
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.ForceCodec(jsonV1{subtype}))
			if err != nil || len(out.Payload.Body) != 1000 {
				t.Errorf("%s: %v", subtype, err)
			}
		}
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)})
		wantCode(t, err, codes.Internal) // the codec cannot read protobuf
	}
}

// TestMaxSendMsgSize: a response above the server's limit ends its call.
func TestMaxSendMsgSize(t *testing.T) {
	_, addr := startTarn(t, &testService{}, rpc.MaxSendMsgSize(500))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for _, x := range []struct {
		size int
		want codes.Code
	}{{400, codes.OK}, {600, codes.ResourceExhausted}} {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(x.size)})
		wantCode(t, err, x.want)
	}
}

// TestLargestValues: each option that takes a number accepts its largest, as grpc-go's do, and calls succeed. Programs ask for
// windows of 1 GiB and more.
func TestLargestValues(t *testing.T) {
	call := func(name string, server []rpc.ServerOption, client []rpc.DialOption) {
		t.Run(name, func(t *testing.T) {
			_, addr := startTarn(t, &testService{}, server...)
			out, err := pb.NewTestServiceClient(dialTarn(t, addr, client...)).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)})
			if err != nil || len(out.Payload.Body) != 1000 {
				t.Error(err)
			}
		})
	}
	for name, opt := range map[string]rpc.ServerOption{
		"window": rpc.InitialWindowSize(math.MaxInt32), "connection's window": rpc.InitialConnWindowSize(math.MaxInt32),
		"static window": rpc.StaticStreamWindowSize(math.MaxInt32), "static connection's window": rpc.StaticConnWindowSize(math.MaxInt32),
		"streams": rpc.MaxConcurrentStreams(math.MaxUint32), "resets": rpc.MaxResets(math.MaxUint32), "header list": rpc.MaxHeaderListSize(math.MaxUint32),
		"unannounced header list": rpc.UnannouncedHeaderListSize(math.MaxUint32), "workers": rpc.NumStreamWorkers(math.MaxUint32),
		"message received": rpc.MaxRecvMsgSize(math.MaxInt), "message sent": rpc.MaxSendMsgSize(math.MaxInt),
	} {
		call("server, "+name, []rpc.ServerOption{opt}, nil)
	}
	for name, opt := range map[string]rpc.DialOption{
		"window": rpc.WithInitialWindowSize(math.MaxInt32), "connection's window": rpc.WithInitialConnWindowSize(math.MaxInt32),
		"static window": rpc.WithStaticStreamWindowSize(math.MaxInt32), "static connection's window": rpc.WithStaticConnWindowSize(math.MaxInt32),
		"header list": rpc.WithMaxHeaderListSize(math.MaxUint32), "unannounced header list": rpc.WithUnannouncedHeaderListSize(math.MaxUint32),
		"messages": rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt), grpc.MaxCallSendMsgSize(math.MaxInt)),
	} {
		call("client, "+name, nil, []rpc.DialOption{opt})
	}
}

// bundle is a credentials.Bundle.
type bundle struct {
	conn credentials.TransportCredentials
	call credentials.PerRPCCredentials
}

func (b bundle) TransportCredentials() credentials.TransportCredentials { return b.conn }
func (b bundle) PerRPCCredentials() credentials.PerRPCCredentials       { return b.call }
func (b bundle) NewWithMode(string) (credentials.Bundle, error)         { return b, nil }

// TestEmptyUserAgent: an empty user agent of the caller, as programs have it that configure none, adds nothing. What was sent began with a blank, and
// servers that check fields ended each call.
func TestEmptyUserAgent(t *testing.T) {
	got := make(chan []string, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		got <- md["user-agent"]
		return &pb.SimpleResponse{}, nil
	}})
	for _, protocol := range []rpc.Protocol{rpc.GRPC, rpc.Connect} {
		var agents [][]string
		for _, opts := range [][]rpc.DialOption{nil, {rpc.WithUserAgent("")}, {rpc.WithUserAgent(" ")}} {
			cc := dialTarn(t, addr, append(opts, rpc.WithProtocol(protocol))...)
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Fatal(protocol, err)
			}
			agents = append(agents, <-got)
		}
		if len(agents[0]) != 1 || !slices.Equal(agents[0], agents[1]) || !slices.Equal(agents[0], agents[2]) {
			t.Errorf("%v: without a user agent, with an empty one and a blank: %q", protocol, agents)
		}
	}
}

// TestMetadataOfOptions: a credentials bundle adds its credentials to calls, and WithUserAgent its text; options that
// are joined are all applied.
func TestMetadataOfOptions(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{Username: strings.Join(append(md["authorization"], md["user-agent"]...), ", ")}, nil
	}})
	b := bundle{insecure.NewCredentials(), token{}}
	cc, err := rpc.NewClient(addr, rpc.JoinDialOptions(rpc.WithCredentialsBundle(b), rpc.WithPool(tarntest.NewPool(t))), rpc.WithContextDialer(dialOver(t)),
		rpc.WithUserAgent("mine/1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	if want := "Bearer /grpc.testing.TestService/UnaryCall, mine/1 grpc-go-tarn/1"; err != nil || out.Username != want {
		t.Errorf("%q, %v; want %q", out.GetUsername(), err, want)
	}
	for _, opts := range [][]rpc.DialOption{
		{rpc.WithCredentialsBundle(b), rpc.WithTransportCredentials(insecure.NewCredentials())},
		{rpc.WithCredentialsBundle(bundle{call: token{}})},
	} {
		if cc, err := rpc.NewClient(addr, opts...); err == nil {
			cc.Close()
			t.Error("a client with a bundle that cannot be used")
		}
	}
}

// TestMaxCallAttempts: the option bounds the attempts of a policy; less than two is the default of five.
func TestMaxCallAttempts(t *testing.T) {
	policy := rpc.RetryPolicy{MaxAttempts: 9, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	for _, x := range []struct {
		most int
		want int32
	}{{0, 5}, {1, 5}, {2, 2}, {7, 7}} {
		svc, n := flaky(100, codes.Aborted)
		_, addr := startTarn(t, svc)
		_, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithRetryPolicy(policy), rpc.WithMaxCallAttempts(x.most))).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.Aborted)
		if n.Load() != x.want {
			t.Errorf("WithMaxCallAttempts(%d): %d attempts, want %d", x.most, n.Load(), x.want)
		}
	}
}

// TestOptionsWithoutEffect: a server and a client take the options that docs/migrate-grpc.md lists as without effect.
func TestOptionsWithoutEffect(t *testing.T) {
	_, addr := startTarn(t, &testService{}, rpc.JoinServerOptions(rpc.HeaderTableSize(1), rpc.ReadBufferSize(1)), rpc.WriteBufferSize(1), rpc.SharedWriteBuffer(true), rpc.BufferPool(mem.NopBufferPool{}))
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithReadBufferSize(1), rpc.WithWriteBufferSize(1), rpc.WithSharedWriteBuffer(true), rpc.WithChannelzParentID(nil), rpc.WithBufferPool(mem.NopBufferPool{})))
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100000)}); err != nil {
		t.Error(err)
	}
}
