package faultnet

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/testcert"
)

// Variable is the environment variable that names the network on which tests run that do not choose one: the name
// of a Kind, all but MemoryTLS, or a fault of the network, "trickle" or "jitter", over TCP. Each connection goes
// through a relay then. Without it, or when it is empty, they use plain TCP.
const Variable = "TARN_NET"

// Chosen reports whether [Variable] names a network.
func Chosen() bool { return os.Getenv(Variable) != "" }

// network is what Variable names.
type network struct {
	kind   Kind
	faults func(...*Flow)
}

// chosen returns the network that Variable names, and whether it names one.
func chosen(t testing.TB) (network, bool) {
	t.Helper()
	name := os.Getenv(Variable)
	switch name {
	case "":
		return network{}, false
	case "trickle":
		return network{TCP, func(flows ...*Flow) {
			for _, f := range flows {
				f.Trickle(64)
			}
		}}, true
	case "jitter":
		return network{TCP, func(flows ...*Flow) {
			for i, f := range flows {
				f.Jitter(uint64(i))
			}
		}}, true
	}
	for _, k := range Kinds {
		if k.String() == name {
			return network{k, func(...*Flow) {}}, true
		}
	}
	t.Fatalf("%s=%s: no such network", Variable, name)
	return network{}, false
}

// Joined returns both ends of a connection of t's kind, which for tests that do not choose one is that of
// [Variable]. The caller closes them.
func Joined(t testing.TB) (client, server net.Conn) {
	t.Helper()
	if k, ok := t.(OnKind); ok {
		a, b := Dialed(t)
		return k.Kind.Dialer()(a), k.Kind.Acceptor(t)(b)
	}
	n, ok := chosen(t)
	if !ok {
		return Dialed(t)
	}
	l := New(t, n.kind)
	n.faults(l.ToServer, l.ToClient)
	return l.Client, l.Server
}

// Through returns nc, an end of a connection, on the network that [Variable] names: an end of a connection
// of that kind with a relay between it and nc. The relay ends TLS, so the two ends of a connection
// need not both be on the network. It ends with the test. Without a network it returns nc itself.
//
// A *tls.Conn is returned as it is, since a relay outside of TLS would end what the test is about.
func Through(t testing.TB, nc net.Conn) net.Conn {
	t.Helper()
	n, ok := chosen(t)
	if !ok {
		return nc
	}
	var outer end
	switch nc := nc.(type) {
	case *net.TCPConn:
		outer = tcpEnd{nc}
	case *tls.Conn:
		return nc
	default:
		outer = pipeEnd{nc}
	}
	var user net.Conn
	var inner end
	switch n.kind {
	case Memory:
		user, inner = memoryPair(memoryBuffer)
	case Pipe:
		user, inner = pipePair()
	default:
		user, inner = tcpPair(t)
	}
	raw := user
	user = n.kind.Dialer()(user)
	if n.kind == TLS {
		cert, _ := testcert.New(t)
		inner = tlsEnd{tls.Server(inner, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}), inner}
	}
	n.faults(relay(t, inner, outer, raw))
	return user
}

// DialFunc is a function that dials, in the form that net/http, smb and rpc take.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// DialThrough dials as net.Dialer does, a connection of t's kind, which for tests that do not choose one is that of
// [Variable].
func DialThrough(t testing.TB) DialFunc {
	t.Helper()
	return DialerThrough(t, new(net.Dialer).DialContext)
}

// DialerThrough is DialThrough for what dial dials.
func DialerThrough(t testing.TB, dial DialFunc) DialFunc {
	t.Helper()
	checkChosen(t)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if k, ok := t.(OnKind); ok {
			return k.Kind.Dialer()(nc), nil
		}
		return Through(t, nc), nil
	}
}

// ListenThrough returns l with its connections of t's kind, which for tests that do not choose one is that of [Variable].
func ListenThrough(t testing.TB, l net.Listener) net.Listener {
	t.Helper()
	checkChosen(t)
	if k, ok := t.(OnKind); ok {
		return &throughListener{l, k.Kind.Acceptor(t)}
	}
	return &throughListener{l, func(nc net.Conn) net.Conn { return Through(t, nc) }}
}

// checkChosen fails the test when Variable names no network. It is called on the test's goroutine, since the goroutine that dials or
// accepts may not call FailNow.
func checkChosen(t testing.TB) {
	t.Helper()
	chosen(t)
}

// throughListener is a Listener whose connections go through accepted. A pointer to it is used, since servers have listeners as keys
// of maps, which a struct with a function cannot be.
type throughListener struct {
	net.Listener
	accepted func(net.Conn) net.Conn
}

func (l *throughListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.accepted(nc), nil
}

// NeedsTCP leaves the test out when [Variable] names a network; reason says why it cannot run there. It is listed as
// leftout's are, and may be left out where CI=true, because it runs without Variable.
func NeedsTCP(t testing.TB, reason string) {
	t.Helper()
	if _, ok := chosen(t); ok {
		leftout.Note(t, "not with "+Variable+"="+os.Getenv(Variable)+": "+reason)
		t.SkipNow()
	}
}

// Omits reports whether [Variable] names a network, on which what the caller checks next cannot hold; reason says why, and
// is listed as NeedsTCP's is. The rest of the test runs.
func Omits(t testing.TB, reason string) bool {
	t.Helper()
	_, ok := chosen(t)
	if ok {
		leftout.Note(t, "one check not with "+Variable+"="+os.Getenv(Variable)+": "+reason)
	}
	return ok
}

// NeedsHalfClose leaves the test out, as NeedsTCP does, when [Variable] names a network on which connections end in both directions at
// once, so that a Write after the peer's end may fail before a Read returns that end: pipe.
func NeedsHalfClose(t testing.TB) {
	t.Helper()
	if n, ok := chosen(t); ok && n.kind == Pipe {
		NeedsTCP(t, "a connection that is half closed")
	}
}

// NeedsFakeTime leaves the test out, as NeedsTCP does, when [Variable] names a network of sockets: the test runs in a bubble of
// testing/synctest, in which a wait for a socket does not count as blocked. It is called outside of the bubble.
func NeedsFakeTime(t testing.TB) {
	t.Helper()
	if n, ok := chosen(t); ok && n.kind != Memory && n.kind != Pipe {
		NeedsTCP(t, "a bubble of testing/synctest")
	}
}

// PeerAddress is what the address of a peer begins with on the network that [Variable] names, and on TCP without one.
func PeerAddress(t testing.TB) string {
	t.Helper()
	switch n, _ := chosen(t); n.kind {
	case Memory:
		return "memory"
	case Pipe:
		return "pipe"
	}
	return "127.0.0.1:"
}

// tlsEnd is the relay's end of a TLS connection.
type tlsEnd struct {
	*tls.Conn
	raw end
}

func (e tlsEnd) CloseWrite() error {
	e.Conn.CloseWrite()
	return e.raw.CloseWrite()
}

func (e tlsEnd) Abort() { e.raw.Abort() }
