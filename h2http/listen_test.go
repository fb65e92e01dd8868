package h2http_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

// listen listens on a free port; over TLS it offers "h2".
func listen(t testing.TB, overTLS bool) net.Listener {
	t.Helper()
	l := listenTCP(t)
	if !overTLS {
		return l
	}
	cert, _ := testcert.New(t)
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
}
