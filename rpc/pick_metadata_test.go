package rpc_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// badMetadataPick picks a SubConn with metadata that may not be sent.
type badMetadataPick struct {
	sc   balancer.SubConn
	done chan struct{}
}

func (p badMetadataPick) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc, Metadata: metadata.MD{"bad key": {"value"}},
		Done: func(balancer.DoneInfo) { p.done <- struct{}{} }}, nil
}

// TestInvalidMetadataOfAPick: a call to which the balancer adds metadata that may not be sent fails before anything is sent, as in grpc-go.
func TestInvalidMetadataOfAPick(t *testing.T) {
	done := make(chan struct{}, 1)
	balancer.Register(base.NewBalancerBuilder("bad_metadata_test", firstReady(func(sc balancer.SubConn) balancer.Picker { return badMetadataPick{sc, done} }), base.Config{}))
	const config = `{"loadBalancingConfig":[{"bad_metadata_test":{}}]}`
	_, addr := startTarn(t, &testService{})
	clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr, rpc.WithDefaultServiceConfig(config))}
	if newestGRPC() {
		clients["grpc-go"] = dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config))
	}
	for name, cc := range clients {
		for kind, call := range map[string]func(pb.TestServiceClient) error{
			"unary": func(c pb.TestServiceClient) error {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				return err
			},
			"stream": func(c pb.TestServiceClient) error {
				_, err := c.FullDuplexCall(ctxFor(t))
				return err
			},
		} {
			err := call(pb.NewTestServiceClient(cc))
			if wantCode(t, err, codes.Internal); !strings.Contains(err.Error(), "bad key") {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
			<-done
		}
	}
}

// picksAuthority picks a SubConn, at first with an authority and then without.
type picksAuthority struct {
	sc    balancer.SubConn
	picks *atomic.Int32
}

func (p picksAuthority) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	r := balancer.PickResult{SubConn: p.sc}
	if p.picks.Add(1) == 1 {
		r.Metadata = metadata.Pairs(":authority", "picked.test", "key", "value")
	}
	return r, nil
}

// TestAuthorityOfAPick: an attempt has the authority that the balancer gives it (gRFC A81), the next one has its own again, and
// CallAuthority overrides both.
func TestAuthorityOfAPick(t *testing.T) {
	picks := new(atomic.Int32)
	balancer.Register(base.NewBalancerBuilder("authority_test", firstReady(func(sc balancer.SubConn) balancer.Picker { return picksAuthority{sc, picks} }), base.Config{}))
	const config = `{"loadBalancingConfig":[{"authority_test":{}}],"methodConfig":[{"name":[{}],
		"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["ABORTED"]}}]}`
	var seen []string
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen = append(seen, strings.Join(append(md[":authority"], md["key"]...), " "))
		if len(seen) == 1 {
			return nil, status.Error(codes.Aborted, "again")
		}
		return &pb.SimpleResponse{}, nil
	}})
	clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr, rpc.WithDefaultServiceConfig(config))}
	if newestGRPC() {
		clients["grpc-go"] = dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config))
	}
	for name, cc := range clients {
		picks.Store(0)
		seen = nil
		c := pb.NewTestServiceClient(cc)
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.OK)
		if name == "grpc-go" && len(seen) == 2 {
			seen[1] = addr // before 1.85 it was the first attempt's
		}
		if want := []string{"picked.test value", addr}; !slices.Equal(seen, want) {
			t.Errorf("%s: the attempts have %q, want %q", name, seen, want)
		}
		picks.Store(0)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallAuthority("called.test"))
		if wantCode(t, err, codes.OK); seen[len(seen)-1] != "called.test value" {
			t.Errorf("%s: with CallAuthority a call has %q", name, seen)
		}
	}
}

// headerLog records the metadata of requests.
type headerLog struct {
	stats.Handler
	header metadata.MD
}

func (l *headerLog) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (l *headerLog) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (l *headerLog) HandleConn(context.Context, stats.ConnStats)                       {}
func (l *headerLog) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.OutHeader); ok {
		l.header = h.Header
	}
}

// TestStatsOfAPick: statistics handlers see the metadata that a balancer adds, as in grpc-go, and the user agent that is sent.
func TestStatsOfAPick(t *testing.T) {
	picks := new(atomic.Int32)
	balancer.Register(base.NewBalancerBuilder("stats_test", firstReady(func(sc balancer.SubConn) balancer.Picker { return picksAuthority{sc, picks} }), base.Config{}))
	const config = `{"loadBalancingConfig":[{"stats_test":{}}]}`
	_, addr := startTarn(t, &testService{})
	check := func(name string, l *headerLog, cc grpc.ClientConnInterface, agent string) {
		t.Helper()
		picks.Store(0)
		ctx := metadata.AppendToOutgoingContext(ctxFor(t), "key", "mine")
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctx, &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.header["key"], " "); got != "mine value" {
			t.Errorf("%s: handlers see %q", name, got)
		}
		if got := strings.Join(l.header["user-agent"], " "); !strings.HasPrefix(got, agent) {
			t.Errorf("%s: handlers see the user agent %q", name, got)
		}
	}
	ours := new(headerLog)
	cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(config), rpc.WithStatsHandler(ours))
	check("tarn", ours, cc, "grpc-go-tarn/")
	library, err := grpc.NewClient("passthrough:///x", append([]grpc.DialOption{grpc.WithUserAgent("library/1")}, rpc.DialOptions(cc)...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	check("DialOptions", ours, library, "library/1 ")
	theirs := new(headerLog)
	check("grpc-go", theirs, dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config), grpc.WithStatsHandler(theirs)), "grpc-go/")
}

// donePick reports the ends of its calls.
type donePick struct {
	sc   balancer.SubConn
	done chan balancer.DoneInfo
}

func (p donePick) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc, Done: func(d balancer.DoneInfo) { p.done <- d }}, nil
}

// TestDoneOfTrailers: a balancer learns that a response has come, also if its trailer has nothing but the status, and gets the metadata of one that has some, as in
// grpc-go.
func TestDoneOfTrailers(t *testing.T) {
	done := make(chan balancer.DoneInfo, 1)
	balancer.Register(base.NewBalancerBuilder("done_test", firstReady(func(sc balancer.SubConn) balancer.Picker { return donePick{sc, done} }), base.Config{}))
	const config = `{"loadBalancingConfig":[{"done_test":{}}]}`
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.FillUsername {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("t", "1")); err != nil {
				return nil, err
			}
		}
		return &pb.SimpleResponse{}, nil
	}})
	for name, cc := range map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr, rpc.WithDefaultServiceConfig(config)),
		"grpc-go": dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config))} {
		for _, with := range []bool{false, true} {
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{FillUsername: with}); err != nil {
				t.Fatal(err)
			}
			d := <-done
			if d.Err != nil || !d.BytesSent || !d.BytesReceived || (len(d.Trailer) > 0) != with || with && !slices.Equal(d.Trailer["t"], []string{"1"}) {
				t.Errorf("%s: with metadata %v, Done got %+v", name, with, d)
			}
		}
	}
}
