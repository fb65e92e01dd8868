package rpc_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestStatsOfAttemptsWithoutAStream: stats handlers see the beginning and the end of each attempt once, also of attempts for which no
// connection can be made. A call whose header is sent together with its request makes as many as another.
func TestStatsOfAttemptsWithoutAStream(t *testing.T) {
	faultnet.NeedsTCP(t, "it closes single connections")
	const config = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s",` +
		`"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	duplex := func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.FullDuplexCall(ctx)
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	for _, c := range []struct {
		name  string
		conns int32 // that can be made
		call  func(ctx context.Context, c pb.TestServiceClient) error
	}{
		{"unary", 0, func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			return err
		}},
		{"output", 0, func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			return err
		}},
		{"duplex", 0, duplex},
		{"duplex, the second attempt", 1, duplex},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conn atomic.Pointer[net.Conn]
			var dialled atomic.Int32
			_, addr := startTarn(t, &testService{duplex: func(pb.TestService_FullDuplexCallServer) error {
				(*conn.Load()).Close()
				return status.Error(codes.Unavailable, "")
			}})
			l := newEventLog()
			cc := dialTarn(t, "passthrough:///x", rpc.WithStatsHandler(l), rpc.WithDefaultServiceConfig(config),
				rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					if dialled.Add(1) > c.conns {
						return nil, errors.New("no route")
					}
					nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
					conn.Store(&nc)
					return nc, err
				}))
			wantCode(t, c.call(ctxFor(t), pb.NewTestServiceClient(cc)), codes.Unavailable)
			if events := l.sofar(); count(events, "Begin") != 2 || count(events, "End") != 2 {
				t.Errorf("of two attempts the stats handler saw\n%s", strings.Join(events, "\n"))
			}
		})
	}
}

// TestStatsOfACallWithoutARequest: a call that ends before its request is sent has ended for stats handlers, too.
func TestStatsOfACallWithoutARequest(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	l := newEventLog()
	cc := dialTarn(t, addr, rpc.WithStatsHandler(l))
	ctx, cancel := context.WithCancel(ctxFor(t))
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	wantCode(t, s.RecvMsg(new(pb.StreamingOutputCallResponse)), codes.Canceled)
	if events := l.sofar(); count(events, "Begin") != 1 || count(events, "End Canceled") != 1 {
		t.Errorf("the stats handler saw\n%s", strings.Join(events, "\n"))
	}
}

// TestStatsOfATimeoutOfZero: a call whose method has a timeout of zero in the service config has no attempt, and stats handlers do not learn of it.
func TestStatsOfATimeoutOfZero(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	l := newEventLog()
	cc := dialTarn(t, addr, rpc.WithStatsHandler(l), rpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"timeout":"0s"}]}`))
	c := pb.NewTestServiceClient(cc)
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.DeadlineExceeded)
	_, err = c.FullDuplexCall(ctxFor(t))
	wantCode(t, err, codes.DeadlineExceeded)
	if events := l.sofar(); count(events, "Begin")+count(events, "End") > 0 {
		t.Errorf("the stats handler saw\n%s", strings.Join(events, "\n"))
	}
}

// sofar returns the events so far.
func (l *eventLog) sofar() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// count is how many events begin with prefix.
func count(events []string, prefix string) (n int) {
	for _, e := range events {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}
