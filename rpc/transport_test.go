package rpc_test

import (
	"context"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// listenOver listens for connections of t's kind, or on the network that faultnet.Variable names.
func listenOver(t testing.TB) net.Listener {
	t.Helper()
	return faultnet.ListenThrough(t, listenTCP(t))
}

// dialOver makes a connection of t's kind, or on the network that faultnet.Variable names.
func dialOver(t testing.TB) func(context.Context, string) (net.Conn, error) {
	dial := faultnet.DialThrough(t)
	return func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }
}
