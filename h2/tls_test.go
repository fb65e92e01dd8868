package h2

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
)

func tlsWiring(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	cert, _ := testcert.New(t)
	a, b := faultnet.Dialed(t)
	return tls.Client(a, &tls.Config{InsecureSkipVerify: true}),
		tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}})
}
