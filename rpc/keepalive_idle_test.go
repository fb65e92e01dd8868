package rpc_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// answersPings reads frames until the connection ends, answers SETTINGS and the first n PINGs, and returns how many PINGs
// have come.
func answersPings(fr *http2.Framer, n int) (pings int) {
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return pings
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if pings++; pings <= n {
				fr.WritePing(true, f.Data)
			}
		}
	}
}

// TestIdleConnectionIsPinged: keepalive applies to connections without calls, whose memory has been given up: a peer that
// answers is asked again, and the connection ends when it answers no more. The times are the shortest that grpc-go permits.
func TestIdleConnectionIsPinged(t *testing.T) {
	t.Parallel()
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	cert, roots := testcert.New(t)
	serverTLS := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	clientTLS := &tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2"}}
	var alongside together
	defer alongside.wait()
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		alongside.run(t, "server/"+name, func(t *testing.T) {
			creds := insecure.NewCredentials()
			if secure {
				creds = credentials.NewTLS(serverTLS)
			}
			_, addr := startTarn(t, &testService{}, rpc.Creds(creds), rpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second, Timeout: time.Second}))
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if secure {
				nc = tls.Client(nc, clientTLS)
			}
			io.WriteString(nc, http2.ClientPreface)
			fr := http2.NewFramer(nc, nc)
			fr.WriteSettings()
			if n := answersPings(fr, 1); n != 2 {
				t.Errorf("%d PINGs, not 2", n)
			}
		})
		if testing.Short() {
			continue // a client asks after ten seconds at the earliest
		}
		alongside.run(t, "client/"+name, func(t *testing.T) {
			lis := listenTCP(t)
			defer lis.Close()
			pings := make(chan int, 1)
			go func() {
				nc, err := lis.Accept()
				if err != nil {
					pings <- -1
					return
				}
				defer nc.Close()
				if secure {
					nc = tls.Server(nc, serverTLS)
				}
				io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
				fr := http2.NewFramer(nc, nc)
				fr.WriteSettings()
				pings <- answersPings(fr, 0)
			}()
			creds := insecure.NewCredentials()
			if secure {
				creds = credentials.NewTLS(clientTLS)
			}
			cc, err := rpc.NewClient(lis.Addr().String(), rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(creds),
				rpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Second, Timeout: time.Second, PermitWithoutStream: true}))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			cc.Connect()
			for s := cc.GetState(); s != connectivity.Ready; s = cc.GetState() {
				cc.WaitForStateChange(t.Context(), s)
			}
			if n := <-pings; n != 1 {
				t.Errorf("%d PINGs, not 1", n)
			}
		})
	}
}
