package rpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestWaitedInTransientFailure: a call that waits for a connection and begins while the client is in TRANSIENT_FAILURE fails at its deadline
// with the reason, also if no other attempt to connect ends before.
func TestWaitedInTransientFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cc, err := rpc.NewClient("passthrough:///nowhere", rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("the reason") }))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		cc.Connect()
		synctest.Wait()
		if s := cc.GetState(); s != connectivity.TransientFailure {
			t.Fatal(s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = pb.NewTestServiceClient(cc).EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
		if wantCode(t, err, codes.DeadlineExceeded); !strings.Contains(err.Error(), "the reason") {
			t.Errorf("the error is %v", err)
		}
	})
}
