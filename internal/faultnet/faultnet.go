// Package faultnet is a network for tests whose faults the test decides: full
// sockets, stalls, cuts at a chosen byte, one-byte reads, ends by FIN and by RST.
//
// A [Link] joins two net.Conns. Between them is a relay, so that what each side
// holds is a real connection of its kind: a *net.TCPConn, a *tls.Conn over one, a
// wrapped connection whose type a library cannot recognise, a net.Pipe, or an
// in-memory connection that buffers as a socket does. Code under test takes the
// same paths as in production, and the relay causes the faults of a network.
package faultnet

import (
	"net"
	"testing"
)

// Kind is a kind of connection.
type Kind uint8

const (
	TCP     Kind = iota // *net.TCPConn
	TLS                 // *tls.Conn over TCP
	Wrapped             // a net.Conn that embeds a TCP connection
	Memory              // in memory, buffered like a socket
	Pipe                // net.Pipe: nothing is buffered
	// MemoryTLS is a *tls.Conn over an in-memory connection: TLS in a bubble of
	// testing/synctest, in which a wait for a socket does not count as blocked.
	MemoryTLS
)

// Kinds are all kinds but MemoryTLS, for tests that go through every one.
var Kinds = [...]Kind{TCP, TLS, Wrapped, Memory, Pipe}

// String returns the name of the kind, for subtests.
func (k Kind) String() string {
	return [...]string{"tcp", "tls", "wrapped", "memory", "pipe", "memory-tls"}[k]
}

const (
	// socketBuffer is the size in bytes that the buffers of sockets are set to, so
	// that a stall fills them soon. Below three segments of the loopback device the
	// kernel waits for delayed acknowledgements.
	socketBuffer = 192 << 10
	// memoryBuffer is the size of an in-memory connection's.
	memoryBuffer = 16 << 10
)

// Link is two connections and the relay between them. Both work from the start; the
// relay's methods may be called at any time and on any goroutine.
type Link struct {
	Client, Server net.Conn
	ToServer       *Flow // what the client sends
	ToClient       *Flow // what the server sends
}

// New returns a Link of the kind. Everything is closed at the end of the test. The
// TLS handshake of a TLS link is the user's: it happens with the first read or write.
func New(t testing.TB, kind Kind) *Link {
	t.Helper()
	l := new(Link)
	var a, b end // the relay's ends
	switch kind {
	case Memory, MemoryTLS:
		l.Client, a = memoryPair(memoryBuffer)
		l.Server, b = memoryPair(memoryBuffer)
	case Pipe:
		l.Client, a = pipePair()
		l.Server, b = pipePair()
	default:
		l.Client, a = tcpPair(t)
		l.Server, b = tcpPair(t)
	}
	raw := [2]net.Conn{l.Client, l.Server}
	l.Client, l.Server = kind.Dialer()(l.Client), kind.Acceptor(t)(l.Server)
	l.ToServer, l.ToClient = relay(t, a, b, raw[:]...)
	return l
}

// relay passes on between a and b until both have ended or the test has, which also closes users.
func relay(t testing.TB, a, b end, users ...net.Conn) (fromA, fromB *Flow) {
	fromA, fromB = newFlow(a, b), newFlow(b, a)
	relayed := make(chan struct{}, 2)
	go func() { fromA.run(); relayed <- struct{}{} }()
	go func() { fromB.run(); relayed <- struct{}{} }()
	done := make(chan struct{})
	go func() { // a test that makes many links keeps no sockets of those that have ended
		defer close(done)
		<-relayed
		<-relayed
		a.Close()
		b.Close()
	}()
	t.Cleanup(func() {
		fromA.stop()
		fromB.stop()
		for _, c := range users {
			c.Close()
		}
		a.Close()
		b.Close()
		<-done
	})
	return fromA, fromB
}

// Stall stops both directions.
func (l *Link) Stall() { l.ToServer.Stall(); l.ToClient.Stall() }

// Resume lets both go on.
func (l *Link) Resume() { l.ToServer.Resume(); l.ToClient.Resume() }

// Break ends the link at once, as seen from both sides.
func (l *Link) Break(how Ending) {
	l.ToServer.end(how)
	l.ToClient.end(how)
}

// Dialed returns both ends of a TCP connection over loopback. The caller closes them.
func Dialed(t testing.TB) (dialed, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		c   net.Conn
		err error
	}
	ch := make(chan result, 1)
	go func() {
		c, err := l.Accept()
		ch <- result{c, err}
	}()
	dialed, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	return dialed, r.c
}

func tcpPair(t testing.TB) (net.Conn, end) {
	t.Helper()
	a, b := Dialed(t)
	for _, c := range []net.Conn{a, b} {
		c.(*net.TCPConn).SetReadBuffer(socketBuffer)
		c.(*net.TCPConn).SetWriteBuffer(socketBuffer)
	}
	return a, tcpEnd{b.(*net.TCPConn)}
}

// end is the relay's side of a connection.
type end interface {
	net.Conn
	CloseWrite() error // FIN
	Abort()            // RST
}

type tcpEnd struct{ *net.TCPConn }

func (e tcpEnd) Abort() {
	e.SetLinger(0)
	e.Close()
}
