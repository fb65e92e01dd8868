package smb_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestEndpoint has a session's figures while a request waits for its answer, in each kind of protection, and after its end.
func TestEndpoint(t *testing.T) {
	for _, of := range []struct {
		server     *script.Server
		dialect    string
		protection string
	}{
		{&script.Server{}, "3.1.1", "none"},
		{&script.Server{Signed: true, Signing: proto.SigningAESGMAC}, "3.1.1", "signed with AES-GMAC"},
		{&script.Server{Signed: true, Dialect: proto.Dialect210}, "2.1", "signed with HMAC-SHA256"},
		{&script.Server{Sealed: true, Cipher: proto.CipherAES256GCM}, "3.1.1", "encrypted with AES-256-GCM"},
	} {
		asked, answer := make(chan struct{}), make(chan struct{})
		of.server.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command == proto.CommandEcho {
				close(asked)
				<-answer
			}
			return false
		}
		d := smb.Dialer{Initiator: fixedKey{}, DialFunc: of.server.Dial, AllowUnsigned: true, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
		s, err := d.Dial(t.Context(), "server")
		must(t, err)
		var source endpoint.Source = s
		answered := make(chan error, 1)
		go func() { answered <- s.Echo(t.Context()) }()
		<-asked
		e := source.Endpoint()
		if e.Kind != "SMB session" || e.Name != "server:445" || e.Conns != 1 {
			t.Errorf("%+v", e)
		}
		got := e.Session
		if got.Server != e.Name || len(got.Servers) != 1 || got.Dialect != of.dialect || got.Protection != of.protection || got.InFlight != 1 ||
			got.Credits < 1 || got.Waiting != 0 || got.Closed || got.Age <= 0 {
			t.Errorf("%+v", got)
		}
		close(answer)
		must(t, <-answered)
		if got := s.Endpoint().Session; got.InFlight != 0 || got.Received == 0 || got.Sent == 0 || got.Reconnects != 0 {
			t.Errorf("answered: %+v", got)
		}
		s.Close()
		if e := s.Endpoint(); e.Conns != 0 || !e.Session.Closed || e.Session.InFlight != 0 {
			t.Errorf("closed: %+v, %+v", e, e.Session)
		}
	}
}

// totalledConn counts what is read and written.
type totalledConn struct {
	net.Conn
	received, sent *atomic.Uint64
}

func (c totalledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(uint64(n))
	return n, err
}

func (c totalledConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(uint64(n))
	return n, err
}

// TestEndpointTraffic has the bytes of a session with two connections, the first of which was lost.
func TestEndpointTraffic(t *testing.T) {
	srv := script.Server{Signed: true, Signing: proto.SigningAESGMAC}
	var received, sent atomic.Uint64
	var conns []net.Conn
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}, DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := srv.Dial(ctx, network, addr)
		conns = append(conns, nc)
		return totalledConn{nc, &received, &sent}, err
	}}
	s, err := d.Dial(t.Context(), "server")
	must(t, err)
	share, err := s.Mount(t.Context(), "share")
	must(t, err)
	must(t, share.WriteFile("a", make([]byte, 100_000), 0o666))
	conns[0].Close()
	must(t, share.WriteFile("a", make([]byte, 100_000), 0o666))
	s.Close() // sends and receives nothing after that
	if e := s.Endpoint().Session; e.Reconnects != 1 || e.Received != received.Load() || e.Sent != sent.Load() || e.Sent < 200_000 {
		t.Errorf("%+v after %d connections, %d bytes received and %d sent", e, len(conns), received.Load(), sent.Load())
	}
}
