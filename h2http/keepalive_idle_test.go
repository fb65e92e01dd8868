package h2http_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// pingTimes are longer than a connection takes to become idle.
var pingTimes = http.HTTP2Config{SendPingTimeout: 700 * time.Millisecond, PingTimeout: 400 * time.Millisecond}

// wrappedConn hides of what kind a connection is.
type wrappedConn struct{ net.Conn }

type wrappingListener struct{ net.Listener }

func (l wrappingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrappedConn{nc}, nil
}

// answersPings reads frames from nc until it ends, answers SETTINGS, the first n PINGs and, with respond, requests. It
// returns how many PINGs have come.
func answersPings(nc net.Conn, fr *http2.Framer, n int, respond bool) (pings int) {
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
		case *http2.HeadersFrame:
			if respond {
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true})
			}
		case *http2.PingFrame:
			if pings++; pings <= n {
				fr.WritePing(true, f.Data)
			}
		}
	}
}

// TestIdleConnectionIsPinged: SendPingTimeout and PingTimeout apply to connections without requests: a peer that answers
// is asked again and again, and the connection ends when it answers no more.
func TestIdleConnectionIsPinged(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	cert, pool := testcert.New(t)
	for _, kind := range []string{"plain", "tls", "wrapped"} {
		clientTLS := &tls.Config{RootCAs: pool, ServerName: "localhost", InsecureSkipVerify: true, NextProtos: []string{"h2"}}
		serverTLS := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
		listen := func(t *testing.T) net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		}
		t.Run("server/"+kind, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			srv := &http.Server{Handler: http.NotFoundHandler(), Protocols: new(http.Protocols), HTTP2: &pingTimes}
			srv.Protocols.SetUnencryptedHTTP2(true)
			srv.Protocols.SetHTTP2(true)
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				switch kind {
				case "wrapped":
					h2http.Serve(wrappingListener{l}, srv)
				case "tls":
					h2http.Serve(tls.NewListener(l, serverTLS), srv)
				default:
					h2http.Serve(l, srv)
				}
			}()
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if kind == "tls" {
				nc = tls.Client(nc, clientTLS)
			}
			defer nc.Close()
			io.WriteString(nc, http2.ClientPreface)
			fr := http2.NewFramer(nc, nc)
			fr.WriteSettings()
			if n := answersPings(nc, fr, 2, false); n != 3 {
				t.Errorf("%d PINGs, not 3", n)
			}
			srv.Close()
			<-served
		})
		t.Run("client/"+kind, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			pings := make(chan int, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					pings <- -1
					return
				}
				defer nc.Close()
				if kind == "tls" {
					nc = tls.Server(nc, serverTLS)
				}
				io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
				fr := http2.NewFramer(nc, nc)
				fr.WriteSettings()
				pings <- answersPings(nc, fr, 2, true)
			}()
			tr := &h2http.Transport{HTTP2: &pingTimes, TLSClientConfig: clientTLS, Config: h2http.Config{Pool: tarntest.NewPool(t)}}
			if kind == "wrapped" {
				tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, addr)
					return wrappedConn{nc}, err
				}
			}
			scheme := "http://"
			if kind == "tls" {
				scheme = "https://"
			}
			req, err := http.NewRequest("GET", scheme+l.Addr().String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if n := <-pings; n != 3 {
				t.Errorf("%d PINGs, not 3", n)
			}
			tr.CloseIdleConnections()
		})
	}
}
