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

// listenOver listens for connections of t's kind, or on the network that faultnet.Variable names.
func listenOver(t testing.TB) net.Listener {
	t.Helper()
	if k, ok := t.(faultnet.OnKind); ok {
		return &acceptor{listenTCP(t), k.Kind.Acceptor(t)}
	}
	return faultnet.ListenThrough(t, listenTCP(t))
}

// dialOver makes a connection of t's kind, or on the network that faultnet.Variable names.
func dialOver(t testing.TB) func(context.Context, string) (net.Conn, error) {
	dial := faultnet.DialThrough(t)
	return func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }
}
