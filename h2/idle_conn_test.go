package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2/internal/poller"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// quickPoller is the process's poller, except that it soon notices connections that other code has closed.
var quickPoller = sync.OnceValue(func() *poller.Poller { return poller.New(5 * time.Millisecond) })

// isIdle reports whether c has dropped what only a busy connection needs.
func (c *Conn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams == nil && c.send.out == nil
}

// idleness is what tests that wait for an idle connection report.
func (c *Conn) idleness() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d streams, rest %d, backoff %d, polled %v, queue kept %v, ended %v", c.streams.len(), c.rest, c.idleBackoff, c.polled != 0, c.send.out != nil, c.lifetime.reached(dead))
}

// awaitIdle returns when all of cs are idle.
func awaitIdle(t testing.TB, cs ...*Conn) {
	t.Helper()
	for _, c := range cs {
		eventually(t, "an idle connection", c.isIdle, c.idleness)
	}
}

// wrapped hides that a connection is TLS, as grpc-go's credentials do.
type wrapped struct{ net.Conn }

func (w wrapped) SyscallConn() (syscall.RawConn, error) {
	return w.Conn.(*tls.Conn).NetConn().(syscall.Conn).SyscallConn()
}

func wrappedWiring(t testing.TB) (net.Conn, net.Conn) {
	a, b := tlsWiring(t)
	return wrapped{a}, wrapped{b}
}

func unixWiring(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "h2") // a socket's name is short, that of T.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func forEachIdle(t *testing.T, f func(t *testing.T, w wiring)) {
	faultnet.NeedsTCP(t, "the poller finds idle sockets alone")
	for name, w := range map[string]wiring{"tcp": tcpWiring, "unix": unixWiring, "tls": tlsWiring, "wrapped": wrappedWiring} {
		t.Run(name, func(t *testing.T) { f(t, w) })
	}
}

// TestBecomesIdle: an idle connection takes calls as before, time and again, and a
// header list that refers to what came before it was idle.
func TestBecomesIdle(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{})
		for i := range 20 {
			k := p.do(t, bytes.Repeat([]byte{byte(i)}, i*1000))
			if len(k.body) != i*1000 || k.header.Status != 200 || len(k.trailer) != 1 {
				t.Fatalf("round %d: %+v, %d bytes", i, k.header, len(k.body))
			}
			awaitIdle(t, p.c, p.s)
		}
	})
}

// TestIdleTakesNoGoroutine: on Linux one goroutine waits for all idle connections, elsewhere each has one.
func TestIdleTakesNoGoroutine(t *testing.T) {
	faultnet.NeedsTCP(t, "goroutines are counted, the relay's among them")
	const n = 10
	before := runtime.NumGoroutine()
	var all []*Conn
	for range n {
		p := newPair(t, tcpWiring, Config{}, Config{})
		p.do(t, []byte("x"))
		all = append(all, p.c, p.s)
	}
	awaitIdle(t, all...)
	most := before + 1
	if runtime.GOOS != "linux" {
		most = before + 2*n
	}
	// The goroutine that found its connection idle is about to end.
	eventually(t, "no more goroutines", func() bool { return runtime.NumGoroutine() <= most }, stacks)
}

// idleEnds are the ways to end a connection.
var idleEnds = map[string]func(p *pair){
	"Close":          func(p *pair) { p.c.Close() },
	"Shutdown":       func(p *pair) { p.c.Shutdown("") },
	"server's Close": func(p *pair) { p.s.Close() },
	"server's":       func(p *pair) { p.s.Shutdown("") },
	"Abort":          func(p *pair) { p.s.Abort(EnhanceYourCalm, "enough") },
	"broken":         func(p *pair) { p.c.NetConn().Close() },
}

// TestIdleConnEnds: each way to end a connection works while it is idle.
func TestIdleConnEnds(t *testing.T) {
	for name, end := range idleEnds {
		t.Run(name, func(t *testing.T) {
			forEachIdle(t, func(t *testing.T, w wiring) {
				p := newPair(t, w, Config{}, Config{})
				p.do(t, []byte("x"))
				awaitIdle(t, p.c, p.s)
				end(p)
				<-p.c.Done()
				<-p.s.Done()
				p.s.mu.Lock()
				defer p.s.mu.Unlock()
				if p.s.lifetime.shutdown != nil && p.s.lifetime.shutdown.timer.Stop() {
					t.Error("a timer is left")
				}
			})
		})
	}
}

// TestIdleConnPings: PINGs wake a connection, its own and the peer's.
func TestIdleConnPings(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{Policy: PingPolicy{MinTime: -1}})
		p.do(t, nil)
		for range 10 {
			awaitIdle(t, p.c, p.s)
			if _, err := p.c.Ping(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// mute is a server that sends its SETTINGS and nothing after them.
func mute(t *testing.T, cfg Config) (*Conn, chan error) {
	a, b := tcpWiring(t)
	t.Cleanup(func() { b.Close() })
	go func() {
		fr := http2.NewFramer(b, b)
		io.ReadFull(b, make([]byte, len(Preface)))
		fr.WriteSettings()
		fr.WriteSettingsAck()
		silent(b)
	}()
	cfg.idleAfter = time.Millisecond
	c, err := NewClient(a, newRecorder(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error)
	c.Start(func(err error) { end <- err })
	return c, end
}

// TestKeepaliveWhileIdle: keepalive ends an idle connection whose peer does not answer,
// with or without a call.
func TestKeepaliveWhileIdle(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for _, without := range []Permission{Deny, Permit} {
		c, end := mute(t, Config{Keepalive: Keepalive{Time: 20 * time.Millisecond, Timeout: 20 * time.Millisecond, WithoutStream: without}})
		if without == Deny {
			awaitIdle(t, c)
			k := newCall()
			s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
			if err != nil {
				t.Fatal(err)
			}
			<-k.done
			s.Release()
		}
		var ce *ConnError
		if err := <-end; !errors.As(err, &ce) || ce.Fault != Peer {
			t.Fatalf("ended with %v", err)
		}
	}
}

// TestIdleBetweenFrames: a connection that checks all the time whether it is idle loses
// nothing of what arrives in pieces.
func TestIdleBetweenFrames(t *testing.T) {
	a, b := tcpWiring(t)
	p := newPair(t, func(testing.TB) (net.Conn, net.Conn) { return a, slow(t, b) },
		Config{idleAfter: 20 * time.Microsecond}, Config{idleAfter: 20 * time.Microsecond})
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		body := make([]byte, rnd.IntN(30_000))
		if k := p.do(t, body); k == nil || len(k.body) != len(body) {
			t.Fatalf("%d bytes sent, came back: %+v", len(body), k)
		}
	}
}

// slow relays what comes on nc to another connection and back, a few bytes at a
// time.
func slow(t *testing.T, nc net.Conn) net.Conn {
	near, far := tcpWiring(t)
	relay := func(from, to net.Conn) {
		rnd := rand.New(rand.NewPCG(5, 6))
		buf := make([]byte, 2000)
		for {
			n, err := from.Read(buf[:1+rnd.IntN(len(buf))])
			if n > 0 {
				cut := rnd.IntN(n)
				to.Write(buf[:cut])
				runtime.Gosched()
				_, err = to.Write(buf[cut:n])
			}
			if err != nil {
				to.Close()
				from.Close()
				return
			}
		}
	}
	go relay(nc, far)
	go relay(far, nc)
	return near
}

// TestIdleConnEndsWhilePolled: each way to end a connection works once the poller waits for its input, which is after
// isIdle reports true.
func TestIdleConnEndsWhilePolled(t *testing.T) {
	for name, end := range idleEnds {
		t.Run(name, func(t *testing.T) {
			forEachIdle(t, func(t *testing.T, w wiring) {
				p := newPair(t, w, Config{}, Config{})
				p.do(t, []byte("x"))
				awaitPolled(t, p.c, p.s)
				end(p)
				<-p.c.Done()
				<-p.s.Done()
			})
		})
	}
}

// awaitPolled returns when the poller waits for the input of all of cs, or all are idle where there is no poller.
func awaitPolled(t testing.TB, cs ...*Conn) {
	t.Helper()
	if runtime.GOOS != "linux" {
		awaitIdle(t, cs...)
		return
	}
	for _, c := range cs {
		eventually(t, "a polled connection", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.polled != 0
		}, c.idleness)
	}
}

// TestIdleSilentCall: a call on a polled connection whose peer is silent ends with its context, and the connection
// with keepalive.
func TestIdleSilentCall(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	c, end := mute(t, Config{Keepalive: Keepalive{Time: 20 * time.Millisecond, Timeout: 20 * time.Millisecond, WithoutStream: Deny}})
	awaitPolled(t, c)
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	var ce *ConnError
	if err := <-end; !errors.As(err, &ce) || ce.Fault != Peer {
		t.Fatalf("ended with %v", err)
	}
	<-k.done
	s.Release()
}

// unpolled is a TCP connection whose socket cannot be added to an epoll instance, as when no descriptor is left for one.
type unpolled struct{ *net.TCPConn }

func (u unpolled) SyscallConn() (syscall.RawConn, error) {
	raw, err := u.TCPConn.SyscallConn()
	return uncontrolled{raw}, err
}

type uncontrolled struct{ syscall.RawConn }

func (uncontrolled) Control(func(fd uintptr)) error { return errors.New("refused") }

// TestIdleWithoutPoller: where the system refuses to wait for many connections at once, a goroutine waits for each, and the
// connection becomes idle, takes calls and ends as others do.
func TestIdleWithoutPoller(t *testing.T) {
	faultnet.NeedsTCP(t, "the poller finds idle sockets alone")
	for name, end := range idleEnds {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, func(t testing.TB) (net.Conn, net.Conn) {
				a, b := tcpWiring(t)
				return unpolled{a.(*net.TCPConn)}, unpolled{b.(*net.TCPConn)}
			}, Config{}, Config{})
			for i := range 3 {
				if k := p.do(t, make([]byte, i)); len(k.body) != i {
					t.Fatalf("%d bytes came back, not %d", len(k.body), i)
				}
				awaitIdle(t, p.c, p.s)
			}
			for _, c := range []*Conn{p.c, p.s} {
				c.mu.Lock()
				if c.polled != 0 {
					t.Error("the poller waits for the connection")
				}
				c.mu.Unlock()
			}
			end(p)
			<-p.c.Done()
			<-p.s.Done()
		})
	}
}

// TestMayIdle: only TCP and Unix connections become idle, TLS over them, and those for which AllowIdle was called.
func TestMayIdle(t *testing.T) {
	faultnet.NeedsTCP(t, "the connections are of the test's kinds")
	hidden := func(t testing.TB) (net.Conn, net.Conn) {
		a, b := tcpWiring(t)
		return faultnet.Hidden{Conn: a}, faultnet.Hidden{Conn: b}
	}
	for _, x := range []struct {
		name  string
		w     wiring
		allow Permission
		want  bool
	}{
		{"TCP", tcpWiring, Deny, true},
		{"Unix", unixWiring, Deny, true},
		{"TLS", tlsWiring, Deny, true},
		{"wrapped TLS", wrappedWiring, Deny, false},
		{"wrapped TLS, allowed", wrappedWiring, Permit, true},
		{"no syscall.Conn, allowed", hidden, Permit, false},
		{"in memory, allowed", memoryWiring, Permit, false},
	} {
		a, b := x.w(t)
		c, err := NewClient(a, newRecorder(t), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if x.allow == Permit {
			c.AllowIdle()
		}
		ended := make(chan struct{})
		c.Start(func(error) { close(ended) })
		if c.mayIdle != x.want {
			t.Errorf("%s: may become idle: %v", x.name, c.mayIdle)
		}
		c.NetConn().Close()
		b.Close()
		<-ended
	}
}
