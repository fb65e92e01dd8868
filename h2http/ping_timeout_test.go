package h2http_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2http"
)

// pipeListener accepts what is sent to conns.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// TestPingTimeoutOfDeafPeer: SendPingTimeout and PingTimeout do not end a connection whose peer reads nothing and still sends
// frames; they do once it sends nothing. What the server sends waits in the pipe.
func TestPingTimeoutOfDeafPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = 10 * time.Second // of both settings
		l := pipeListener{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{
			Handler: http.NotFoundHandler(), Protocols: new(http.Protocols),
			HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
		}
		srv.Protocols.SetUnencryptedHTTP2(true)
		if err := h2http.ConfigureServer(srv, nil); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); h2http.Serve(l, srv) }()
		client, server := net.Pipe()
		l.conns <- server
		io.WriteString(client, http2.ClientPreface)
		fr := http2.NewFramer(client, nil)
		send := func() error { return fr.WriteWindowUpdate(0, 1) }
		fr.WriteSettings()
		begun := time.Now()
		for time.Since(begun) < 20*silence {
			if err := send(); err != nil {
				t.Fatalf("the connection has ended after %v: %v", time.Since(begun), err)
			}
			<-time.After(silence / 2)
		}
		<-time.After(3 * silence)
		if err := send(); err == nil {
			t.Error("the connection of a peer that has sent nothing has not ended")
		}
		client.Close()
		srv.Shutdown(context.Background())
		<-ended
		synctest.Wait()
	})
}
