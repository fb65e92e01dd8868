package rpc_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Each time a server ends a connection because of its pings, the next one pings half as often (gRFC A8), so
// that connections last twice as long, until the server accepts them.
func TestTooManyPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := newPipes()
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 65 * time.Second, PermitWithoutStream: true}))
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		var dialed []time.Time
		cc, err := rpc.NewClient("passthrough:///svc", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}),
			rpc.WithIdleTimeout(0),
			rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dialed = append(dialed, time.Now())
				return lis.dial(ctx, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for state := cc.GetState(); ; state = cc.GetState() {
			if state == connectivity.Idle {
				cc.Connect()
			}
			if !cc.WaitForStateChange(ctx, state) {
				break
			}
		}
		// 10, 20 and 40 seconds are too often; 80 seconds are not.
		if len(dialed) != 4 {
			t.Fatalf("%d connections in an hour, want 4", len(dialed))
		}
		first := dialed[1].Sub(dialed[0])
		for i, want := 1, 2*first; i < 3; i, want = i+1, 2*want {
			if got := dialed[i+1].Sub(dialed[i]); got != want {
				t.Errorf("connection %d lasted %v, want %v", i, got, want)
			}
		}
		if n := cc.TransportStats().GoAwaysReceived; len(n) != 1 {
			t.Errorf("GOAWAYs %v", n)
		}
		cc.Close()
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
