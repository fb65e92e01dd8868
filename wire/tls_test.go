package wire_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
)

func tlsPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	cert, _ := testcert.New(t)
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	c := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	s := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}})
	shakeHands(t, c, s)
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// joined is a connection on the network that faultnet.Variable names, after its handshake.
func joined(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	a, b := faultnet.Joined(t)
	if c, ok := a.(*tls.Conn); ok {
		shakeHands(t, c, b.(*tls.Conn))
	}
	return a, b
}

func shakeHands(t testing.TB, c, s *tls.Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
