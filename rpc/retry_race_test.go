package rpc_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestRetriesAmongTheMethodsOfAStream: Header, Context, Trailer, SendMsg and RecvMsg of a stream may be called at once while its attempts fail and
// are replaced.
func TestRetriesAmongTheMethodsOfAStream(t *testing.T) {
	var n atomic.Int32
	_, addr := startTarn(t, &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		if n.Add(1)%4 != 0 {
			return status.Error(codes.Unavailable, "again")
		}
		if err := s.SendHeader(metadata.Pairs("h", "1")); err != nil {
			return err
		}
		for {
			if _, err := s.Recv(); err != nil {
				return nil
			}
		}
	}})
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithStatsHandler(eventHit{isEvent[*stats.Begin], func() {}}),
		rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 5, InitialBackoff: time.Microsecond, MaxBackoff: time.Microsecond, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Unavailable}})))
	for range 200 {
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.Header() })
		wg.Go(func() { s.Header() })
		wg.Go(func() { s.Context().Value("any") })
		wg.Go(func() {
			for range 3 {
				_ = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(10)})
			}
			s.CloseSend()
		})
		wg.Go(func() {
			for err == nil {
				_, err = s.Recv()
			}
		})
		wg.Wait()
		if !errors.Is(err, io.EOF) && status.Code(err) != codes.Unavailable { // Context ends the right to further attempts
			t.Fatal(err)
		}
	}
}
