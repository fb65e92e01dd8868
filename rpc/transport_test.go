package rpc_test

import (
	"context"
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

// onTransport is a test whose connections are of one transport: those of every server and client that the helpers of this
// package make for it.
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

// transportOf is TCP for tests that choose none.
func transportOf(t testing.TB) transport {
	if o, ok := t.(onTransport); ok {
		return o.transport
	}
	return overTCP
}

// otherConn hides the type of a connection.
type otherConn struct{ net.Conn }

// ofTransport is a listener whose connections are of a transport.
type ofTransport struct {
	net.Listener
	transport
	config *tls.Config
}

func (l ofTransport) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	switch {
	case err != nil:
		return nil, err
	case l.transport == overTLS:
		return tls.Server(nc, l.config), nil
	case l.transport == overWrapped:
		return otherConn{nc}, nil
	}
	return nc, nil
}

// listenOver listens for connections of t's transport.
func listenOver(t testing.TB) net.Listener {
	t.Helper()
	l := ofTransport{listenTCP(t), transportOf(t), nil}
	if l.transport == overTCP {
		return l.Listener
	}
	if l.transport == overTLS {
		cert, _ := testcert.New(t)
		l.config = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	}
	return l
}

// dialOver makes a connection of t's transport.
func dialOver(t testing.TB) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		switch transportOf(t) {
		case overTLS:
			return tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}), nil
		case overWrapped:
			return otherConn{nc}, nil
		}
		return nc, nil
	}
}
