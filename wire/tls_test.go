package wire_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

func tlsPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	cert, _ := testcert.New(t)
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	c := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	s := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}})
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}
