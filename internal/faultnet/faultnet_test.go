package faultnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/iotest"
	"time"
)

func forEachKind(t *testing.T, f func(t *testing.T, k Kind)) {
	for _, k := range Kinds {
		t.Run(k.String(), func(t *testing.T) { f(t, k) })
	}
}

var payload = bytes.Repeat([]byte("0123456789"), 50_000)

// send writes payload from the client and closes it.
func send(l *Link) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Client.Write(payload)
		l.Client.Close()
		done <- err
	}()
	return done
}

// handshake completes a TLS link's handshake.
func handshake(t *testing.T, l *Link) {
	t.Helper()
	c, ok := l.Client.(*tls.Conn)
	if !ok {
		return
	}
	done := make(chan error, 1)
	go func() { done <- l.Server.(*tls.Conn).Handshake() }()
	if err := errors.Join(c.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
}

func TestDelivers(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		for name, setup := range map[string]func(*Link){
			"as it is": func(*Link) {},
			"chunks":   func(l *Link) { l.ToServer.Chunk(1000) },
			"jitter":   func(l *Link) { l.ToServer.Jitter(1) },
			"a stall":  func(l *Link) { l.ToServer.Stall(); go l.ToServer.Resume() },
		} {
			t.Run(name, func(t *testing.T) {
				l := New(t, k)
				setup(l)
				done := send(l)
				got, err := io.ReadAll(l.Server)
				if err != nil || !bytes.Equal(got, payload) {
					t.Errorf("%d of %d bytes, %v", len(got), len(payload), err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestStallFillsTheSocket(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		l := New(t, k)
		handshake(t, l)
		l.ToServer.Stall()
		l.Client.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := l.Client.Write(bytes.Repeat(payload, 5))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes were written, %v", n, err)
		}
	})
}

func TestCut(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		for _, how := range []Ending{FIN, RST} {
			l := New(t, k)
			l.ToServer.CutAfter(5000, how)
			done := send(l)
			got, err := io.ReadAll(iotest.OneByteReader(l.Server))
			if how == FIN && k != TLS && (len(got) != 5000 || err != nil && k != Pipe) {
				t.Errorf("FIN after %d bytes, %v", len(got), err)
			}
			if how == RST && k != Pipe && err == nil {
				t.Errorf("RST after %d bytes gave no error", len(got))
			}
			if len(got) > 5000 {
				t.Errorf("%d bytes passed", len(got))
			}
			l.Break(RST)
			<-done
		}
	})
}

func TestBreakBothSides(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		for _, how := range []Ending{FIN, RST} {
			l := New(t, k)
			handshake(t, l)
			l.Break(how)
			for _, c := range []net.Conn{l.Client, l.Server} {
				if n, err := c.Read(make([]byte, 10)); n > 0 || err == nil {
					t.Errorf("read %d, %v", n, err)
				}
			}
		}
	})
}

// TestListener: connections of all kinds, a fault that a link has from its beginning, and a Dial that ends
// with its context or with the listener.
func TestListener(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		l := Listen(t, k)
		l.Faults(func(link *Link) { link.ToServer.Chunk(1) })
		accepted := make(chan net.Conn, 1)
		go func() {
			nc, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- nc
		}()
		client, err := l.Dial(t.Context(), "tcp", "ignored")
		if err != nil {
			t.Fatal(err)
		}
		server := <-accepted
		go func() {
			client.Write([]byte("ab"))
			client.Close()
		}()
		if got, err := io.ReadAll(server); string(got) != "ab" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		links := 0
		l.Each(func(*Link) { links++ })
		if links != 1 {
			t.Errorf("%d links", links)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Dial(ctx, "tcp", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v", err)
		}
		l.Close()
		l.Close()
		if _, err := l.Dial(t.Context(), "tcp", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}

// TestStallAfter: so many bytes arrive, and the others once the stall ends.
func TestStallAfter(t *testing.T) {
	forEachKind(t, func(t *testing.T, k Kind) {
		l := New(t, k)
		handshake(t, l)
		at := l.ToServer.Passed() + 1000
		stalled := l.ToServer.StallAfter(at)
		done := send(l)
		read := make(chan int, 1)
		go func() {
			got, _ := io.ReadAll(l.Server)
			read <- len(got)
		}()
		<-stalled
		if n := l.ToServer.Passed(); n != at {
			t.Errorf("%d bytes have passed, and not %d", n, at)
		}
		l.Resume()
		if n := <-read; n != len(payload) {
			t.Errorf("%d bytes", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestThrough: one end of a TCP connection is on each network that Variable names, and both ends see the other's bytes.
func TestThrough(t *testing.T) {
	for _, name := range []string{"", "tcp", "tls", "wrapped", "memory", "pipe", "trickle", "jitter"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, name)
			near, far := Dialed(t)
			defer far.Close()
			c := Through(t, near)
			defer c.Close()
			if (c == near) != (name == "") {
				t.Errorf("%T", c)
			}
			wrote := make(chan error, 2)
			for _, nc := range []net.Conn{c, far} {
				go func() {
					_, err := nc.Write(payload)
					wrote <- err
				}()
			}
			got := make([]byte, len(payload))
			for _, nc := range []net.Conn{far, c} {
				if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, payload) {
					t.Error(err)
				}
			}
			if err := errors.Join(<-wrote, <-wrote); err != nil {
				t.Error(err)
			}
			c.Close()
			if n, err := far.Read(got); n != 0 || err != io.EOF {
				t.Errorf("after Close: %d, %v", n, err)
			}
		})
	}
}

// failing is a test that notes that it has failed on the goroutine that calls Fatalf, and ends that goroutine.
type failing struct {
	testing.TB
	failed bool
}

func (t *failing) Fatalf(string, ...any) {
	t.failed = true
	runtime.Goexit()
}

// TestUnknownNetwork: what makes connections later, on other goroutines, fails at once when Variable names no network, on the
// goroutine of the test.
func TestUnknownNetwork(t *testing.T) {
	t.Setenv(Variable, "tpc")
	for name, f := range map[string]func(t testing.TB){
		"DialThrough":   func(t testing.TB) { DialThrough(t) },
		"ListenThrough": func(t testing.TB) { ListenThrough(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			ft := &failing{TB: t}
			done := make(chan struct{})
			go func() { defer close(done); f(ft) }()
			if <-done; !ft.failed {
				t.Error("it did not fail")
			}
		})
	}
}

// TestListenThroughOfAKind: the kind of a test that chooses one is that of both ends, whatever Variable names.
func TestListenThroughOfAKind(t *testing.T) {
	t.Setenv(Variable, "trickle")
	EachSocket(t, func(t OnKind) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := ListenThrough(t, tcp)
		defer l.Close()
		_ = map[net.Listener]bool{l: true} // as servers keep it
		read := make(chan error, 1)
		go func() {
			nc, err := l.Accept()
			if err != nil {
				read <- err
				return
			}
			defer nc.Close()
			switch nc.(type) {
			case *net.TCPConn:
				if t.Kind != TCP {
					err = fmt.Errorf("%T", nc)
				}
			case *tls.Conn:
				if t.Kind != TLS {
					err = fmt.Errorf("%T", nc)
				}
			case Hidden:
				if t.Kind != Wrapped {
					err = fmt.Errorf("%T", nc)
				}
			default:
				err = fmt.Errorf("%T", nc)
			}
			got := make([]byte, len(payload))
			_, rerr := io.ReadFull(nc, got)
			if rerr == nil && !bytes.Equal(got, payload) {
				rerr = errors.New("other bytes came")
			}
			read <- errors.Join(err, rerr)
		}()
		nc, err := DialThrough(t)(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write(payload); err != nil {
			t.Error(err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}
