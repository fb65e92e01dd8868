package h2

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// wireOver returns both ends of a connection of t's kind (faultnet.KindOf).
func wireOver(t testing.TB) (client, server net.Conn) {
	k := faultnet.KindOf(t)
	a, b := tcpWiring(t)
	return k.Dialer()(a), k.Acceptor(t)(b)
}
