//go:build unix

package rpc_test

import (
	"crypto/tls"
	"runtime"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// Connections that have made a call become idle on both sides, with TLS and without, each without a goroutine of its
// own (on Linux; elsewhere with one), and then serve another call.
func TestConnsBecomeIdle(t *testing.T) {
	faultnet.NeedsTCP(t, "goroutines are counted, the relay's among them")
	cert, roots := testcert.New(t)
	for name, creds := range map[string][2]credentials.TransportCredentials{
		"plain": {insecure.NewCredentials(), insecure.NewCredentials()},
		"tls": {credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
			credentials.NewTLS(&tls.Config{RootCAs: roots})},
	} {
		t.Run(name, func(t *testing.T) {
			const conns = 3
			before := runtime.NumGoroutine()
			_, addr := startTarn(t, &testService{}, rpc.Creds(creds[0]), rpc.NumStreamWorkers(0))
			var clients []pb.TestServiceClient
			for range conns {
				clients = append(clients, pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithTransportCredentials(creds[1]))))
			}
			call := func() {
				for _, c := range clients {
					if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseSize: 1000}); err != nil {
						t.Fatal(err)
					}
				}
			}
			call()
			most := before + 2 // Serve, and the poller that waits for all of them
			if runtime.GOOS != "linux" {
				most = before + 1 + 2*conns
			}
			for runtime.NumGoroutine() > most {
				<-time.After(10 * time.Millisecond)
			}
			call()
		})
	}
}
