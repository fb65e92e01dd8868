package rpc_test

import (
	"context"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// acceptor is a listener whose connections are of a kind.
type acceptor struct {
	net.Listener
	accepted func(net.Conn) net.Conn
}

func (l *acceptor) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.accepted(nc), nil
}

// listenOver listens for connections of t's kind (faultnet.KindOf).
func listenOver(t testing.TB) net.Listener {
	t.Helper()
	return &acceptor{listenTCP(t), faultnet.KindOf(t).Acceptor(t)}
}

// dialOver makes a connection of t's kind.
func dialOver(t testing.TB) func(context.Context, string) (net.Conn, error) {
	dialed := faultnet.KindOf(t).Dialer()
	return func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return dialed(nc), nil
	}
}
