package faultnet

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
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
