package h2

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

// transport is what a test's connections are: TCP, TLS over TCP, or of a type that no package recognises.
type transport string

const (
	overTCP     transport = "tcp"
	overTLS     transport = "tls"
	overWrapped transport = "wrapped"
)

// onTransport is a test whose connections, as wireOver makes them, are of one transport.
type onTransport struct {
	*testing.T
	transport
}

// Run is testing.T's, on the same transport.
func (t onTransport) Run(name string, f func(t onTransport)) bool {
	return t.T.Run(name, func(tt *testing.T) { f(onTransport{tt, t.transport}) })
}

// eachTransport runs f on each transport.
func eachTransport(t *testing.T, f func(t onTransport)) {
	for _, tr := range []transport{overTCP, overTLS, overWrapped} {
		t.Run(string(tr), func(t *testing.T) { f(onTransport{t, tr}) })
	}
}

// otherConn hides the type of a connection.
type otherConn struct{ net.Conn }

// wireOver returns both ends of a connection of t's transport, which is TCP for tests that choose none.
func wireOver(t testing.TB) (client, server net.Conn) {
	a, b := tcpWiring(t)
	switch o, _ := t.(onTransport); o.transport {
	case overTLS:
		cert, _ := testcert.New(t)
		return tls.Client(a, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}),
			tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	case overWrapped:
		return otherConn{a}, otherConn{b}
	}
	return a, b
}
