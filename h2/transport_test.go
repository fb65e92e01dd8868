package h2

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// wireOver returns both ends of a connection of t's kind.
func wireOver(t testing.TB) (client, server net.Conn) { return faultnet.Joined(t) }
