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

// Through returns nc, an end of a TCP connection, on the network that [Variable] names: an end of a connection
// of that kind with a relay between it and nc. The relay ends TLS, so the two ends of a TCP connection
// need not both be on the network. It ends with the test. Without a network it returns nc itself.
func Through(t testing.TB, nc net.Conn) net.Conn {
	t.Helper()
	n, ok := chosen(t)
	if !ok {
		return nc
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok { // already one for a test that chooses its own
		return nc
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
	outer := tcpEnd{tcp}
	n.faults(relay(t, inner, outer, raw))
	return user
}

// DialThrough dials as net.Dialer does, a connection of t's kind, which for tests that do not choose one is that of
// [Variable].
func DialThrough(t testing.TB) func(ctx context.Context, network, addr string) (net.Conn, error) {
	t.Helper()
	checkChosen(t)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
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
