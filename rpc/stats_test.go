package rpc_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// eventLog records the events of calls.
type eventLog struct {
	mu     sync.Mutex
	events []string
	ended  chan struct{} // receives at each End
}

func newEventLog() *eventLog { return &eventLog{ended: make(chan struct{}, 100)} }

func (l *eventLog) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (l *eventLog) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (l *eventLog) HandleConn(context.Context, stats.ConnStats) {}

func (l *eventLog) HandleRPC(ctx context.Context, s stats.RPCStats) {
	text := strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats.")
	switch p, ok := peer.FromContext(ctx); {
	case ok && p.Addr != nil:
		text += " of a peer"
	case ok:
		text += " of an empty peer"
	}
	wire := func(n int) string {
		if n > 0 {
			return "with a length"
		}
		return "without a length"
	}
	switch s := s.(type) {
	case *stats.Begin:
		text += fmt.Sprint(" ", s.IsClientStream, s.IsServerStream, s.FailFast)
	case *stats.InHeader:
		text += fmt.Sprint(" ", wire(s.WireLength), " ", s.Compression, " ", s.FullMethod, " ", keys(s.Header))
	case *stats.OutHeader:
		text += fmt.Sprint(" ", s.Compression, " ", s.FullMethod, " ", keys(s.Header))
	case *stats.InPayload:
		text += fmt.Sprint(" ", s.Length, " ", s.CompressedLength, " ", s.WireLength)
	case *stats.OutPayload:
		text += fmt.Sprint(" ", s.Length, " ", s.CompressedLength, " ", s.WireLength)
	case *stats.InTrailer:
		text += fmt.Sprint(" ", wire(s.WireLength), " ", keys(s.Trailer))
	case *stats.OutTrailer:
		text += fmt.Sprint(" ", keys(s.Trailer))
	case *stats.End:
		text += fmt.Sprint(" ", status.Code(s.Error), " ", keys(s.Trailer))
	}
	l.mu.Lock()
	l.events = append(l.events, text)
	l.mu.Unlock()
	if _, ok := s.(*stats.End); ok {
		l.ended <- struct{}{}
	}
}

func keys(md metadata.MD) []string {
	var out []string
	for k := range md {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// take returns the events since its last call, after a call has ended.
func (l *eventLog) take() []string {
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.events
	l.events = nil
	return out
}

// statsService ends calls in different ways.
type statsService struct{ testService }

func (s *statsService) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	grpc.SetTrailer(ctx, pairs("t", "1"))
	switch in.FillUsername {
	case true: // a header before the error
		grpc.SendHeader(ctx, pairs("h", "1"))
		return nil, status.Error(codes.Aborted, "")
	}
	if in.FillOauthScope {
		return nil, status.Error(codes.NotFound, "")
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// HalfDuplexCall sends a header and an error.
func (s *statsService) HalfDuplexCall(stream pb.TestService_HalfDuplexCallServer) error {
	if err := stream.SendHeader(pairs("h", "1")); err != nil {
		return err
	}
	return status.Error(codes.Aborted, "")
}

// statsCalls are calls of every kind with every ending.
var statsCalls = []struct {
	name string
	do   func(ctx context.Context, c pb.TestServiceClient) error
}{
	{"unary", func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(100)})
		return err
	}},
	{"unary, error only", func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillOauthScope: true})
		return err
	}},
	{"unary, header and error", func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillUsername: true})
		return err
	}},
	{"unimplemented", func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnimplementedCall(ctx, &pb.Empty{})
		return err
	}},
	{"duplex, header and error", func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.HalfDuplexCall(ctx)
		if err != nil {
			return err
		}
		_, err = s.Recv()
		return err
	}},
	{"output", func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 5}, {Size: 7}}})
		for err == nil {
			_, err = s.Recv()
		}
		return err
	}},
	{"input", func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(10)}); err != nil {
				return err
			}
		}
		_, err = s.CloseAndRecv()
		return err
	}},
	{"duplex", func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(10)}); err != nil {
				return err
			}
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
		s.CloseSend()
		_, err = s.Recv()
		return err
	}},
}

// TestStatsAsInGRPC makes the same calls with grpc-go's client and with Tarn's, on grpc-go's server and on
// Tarn's, and compares the calls of stats handlers. A grpc-go client reports headers and trailers on its
// reading goroutine, at any time: their order is not compared.
func TestStatsAsInGRPC(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		svc := &statsService{}
		logs := map[string]*eventLog{"grpc": newEventLog(), "tarn": newEventLog()}
		_, tarnAddr := startTarn(t, svc, rpc.StatsHandler(logs["tarn"]))
		_, grpcAddr := startGRPC(t, svc, grpc.StatsHandler(logs["grpc"]))
		clientLogs := map[string]*eventLog{"grpc": newEventLog(), "tarn": newEventLog()}
		clients := map[string]pb.TestServiceClient{
			"grpc": pb.NewTestServiceClient(dialGRPC(t, grpcAddr, grpc.WithStatsHandler(clientLogs["grpc"]))),
			"tarn": pb.NewTestServiceClient(dialTarn(t, grpcAddr, rpc.WithStatsHandler(clientLogs["tarn"]))),
		}
		toTarn := pb.NewTestServiceClient(dialGRPC(t, tarnAddr))
		for _, c := range clients { // so that no pick is delayed
			if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
			logs["grpc"].take()
		}
		first := map[string][]string{}
		for name, l := range clientLogs {
			first[name] = unordered(l.take())
		}
		if !slices.Equal(first["grpc"], first["tarn"]) {
			t.Errorf("the first call:\n%s\nwant\n%s", strings.Join(first["tarn"], "\n"), strings.Join(first["grpc"], "\n"))
		}
		for _, call := range statsCalls {
			t.Run(call.name, func(t faultnet.OnKind) {
				ctx := metadata.AppendToOutgoingContext(ctxFor(t), "k", "v")
				var ends []string
				for _, name := range []string{"grpc", "tarn"} {
					ends = append(ends, fmt.Sprint(call.do(ctx, clients[name])))
					logs["grpc"].take()
				}
				if ends[0] != ends[1] {
					t.Errorf("the call ended with %s, grpc-go's with %s", ends[1], ends[0])
				}
				want, got := unordered(clientLogs["grpc"].take()), unordered(clientLogs["tarn"].take())
				if !slices.Equal(want, got) {
					t.Errorf("the client saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if err := call.do(ctx, clients["grpc"]); err != nil && err != io.EOF && status.Code(err) == codes.Unavailable {
					t.Fatal(err)
				}
				clientLogs["grpc"].take()
				want = logs["grpc"].take()
				if err := call.do(ctx, toTarn); err != nil && err != io.EOF && status.Code(err) == codes.Unavailable {
					t.Fatal(err)
				}
				if got = logs["tarn"].take(); !slices.Equal(want, got) {
					t.Errorf("the server saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	})
}

// delayedPick reports whether an event says that the first pick was delayed, which depends on the scheduler.
// PickerUpdated is its name before grpc 1.75.
func delayedPick(event string) bool {
	return strings.HasSuffix(event, "PickerUpdated") || strings.HasSuffix(event, "DelayedPickComplete")
}

// unordered sorts the events that grpc-go's client reports in no fixed order.
func unordered(events []string) []string {
	out := slices.DeleteFunc(slices.Clone(events), delayedPick)
	slices.Sort(out)
	return out
}
