package faultnet

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

// OnKind is a test whose connections are of one kind, as helpers make them that ask KindOf.
type OnKind struct {
	*testing.T
	Kind Kind
}

// Run is testing.T's, on the same kind.
func (t OnKind) Run(name string, f func(t OnKind)) bool {
	return t.T.Run(name, func(tt *testing.T) { f(OnKind{tt, t.Kind}) })
}

// EachSocket runs f on TCP, TLS and Wrapped.
func EachSocket(t *testing.T, f func(t OnKind)) {
	for _, k := range []Kind{TCP, TLS, Wrapped} {
		t.Run(k.String(), func(t *testing.T) { f(OnKind{t, k}) })
	}
}

// KindOf is an OnKind's kind, and TCP for other tests.
func KindOf(t testing.TB) Kind {
	if o, ok := t.(OnKind); ok {
		return o.Kind
	}
	return TCP
}

// Hidden hides the type of a connection.
type Hidden struct{ net.Conn }

// Dialer returns what makes the client's end of a connection of kind k from a plain one. TLS trusts every
// certificate, and its handshake happens with the first read or write.
func (k Kind) Dialer() func(net.Conn) net.Conn {
	switch k {
	case TLS, MemoryTLS:
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
		return func(nc net.Conn) net.Conn { return tls.Client(nc, config) }
	case Wrapped:
		return hide
	}
	return asIs
}

// Acceptor is Dialer for the server's end.
func (k Kind) Acceptor(t testing.TB) func(net.Conn) net.Conn {
	t.Helper()
	switch k {
	case TLS, MemoryTLS:
		cert, _ := testcert.New(t)
		config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
		return func(nc net.Conn) net.Conn { return tls.Server(nc, config) }
	case Wrapped:
		return hide
	}
	return asIs
}

func hide(nc net.Conn) net.Conn { return Hidden{nc} }
func asIs(nc net.Conn) net.Conn { return nc }
