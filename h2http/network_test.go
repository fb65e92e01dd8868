package h2http_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// listenTCP listens on a free port of the loopback device, on the network that [faultnet.Variable] names.
func listenTCP(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return throughNetwork(t, l)
}

func throughNetwork(t testing.TB, l net.Listener) net.Listener {
	t.Helper()
	if !faultnet.Chosen() {
		return l
	}
	return &networkListener{faultnet.ListenThrough(t, l)}
}

// networkListener hides that a network is TLS: net/http and this package serve a *tls.Conn by what its handshake
// agreed on, which is the relay's handshake here and not that of the test.
type networkListener struct{ net.Listener }

func (l *networkListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return hideTLS(nc), err
}

func hideTLS(nc net.Conn) net.Conn {
	if c, ok := nc.(*tls.Conn); ok {
		return faultnet.Hidden{Conn: c}
	}
	return nc
}

// dialer dials on the network that [faultnet.Variable] names; nil without one, so that clients dial themselves.
func dialer(t testing.TB) faultnet.DialFunc {
	t.Helper()
	if !faultnet.Chosen() {
		return nil
	}
	return dialThrough(t, new(net.Dialer).DialContext)
}

// dialThrough is dial on that network.
func dialThrough(t testing.TB, dial faultnet.DialFunc) faultnet.DialFunc {
	t.Helper()
	if !faultnet.Chosen() {
		return dial
	}
	through := faultnet.DialerThrough(t, dial)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := through(ctx, network, addr)
		return hideTLS(nc), err
	}
}

// dialTCP returns a connection to a server of listenTCP's. The caller closes it.
func dialTCP(t testing.TB, addr string) (net.Conn, error) {
	return dialThrough(t, new(net.Dialer).DialContext)(context.Background(), "tcp", addr)
}
