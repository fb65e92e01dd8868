//go:build unix

package wire_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// forEachAwaited runs f on each kind of connection that can be awaited.
func forEachAwaited(t *testing.T, f func(t *testing.T, a, b net.Conn)) {
	awaited := 0
	forEach(t, func(t *testing.T, a, b net.Conn) {
		if wire.CanAwait(b) {
			awaited++
			f(t, a, b)
		} else if err := wire.Await(b); err == nil {
			t.Error("Await of what cannot be awaited")
		}
	})
	if awaited < 3 {
		t.Errorf("%d kinds of connections can be awaited, not TCP, Unix and TLS", awaited)
	}
}

// TestAwait: it returns when something has come or the connection has ended, and
// takes nothing.
func TestAwait(t *testing.T) {
	faultnet.NeedsTCP(t, "for sockets alone")
	forEachAwaited(t, func(t *testing.T, a, b net.Conn) {
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		for i := range 50 {
			woken := make(chan error)
			go func() { woken <- wire.Await(b) }()
			if _, err := a.Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			if err := <-woken; err != nil {
				t.Fatal(err)
			}
			if err := wire.Await(b); err != nil { // it is still there
				t.Fatal(err)
			}
			if p, err := r.Peek(1); err != nil || p[0] != byte(i) {
				t.Fatal(p, err)
			}
			r.Discard(1)
		}
		go a.Close()
		if err := wire.Await(b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAwaitIsCut: by a deadline and by Close.
func TestAwaitIsCut(t *testing.T) {
	faultnet.NeedsTCP(t, "for sockets alone")
	forEachAwaited(t, func(t *testing.T, a, b net.Conn) {
		b.SetReadDeadline(time.Now().Add(time.Millisecond))
		if err := wire.Await(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("at the deadline: %v", err)
		}
		b.SetReadDeadline(time.Time{})
		end := make(chan error)
		go func() { end <- wire.Await(a) }()
		a.Close()
		if err := <-end; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Reads of all kinds continue after a deadline that OnDeadline has moved, with nothing lost, and otherwise
// fail with the error that it returns.
func TestOnDeadline(t *testing.T) {
	errEnough := errors.New("enough")
	forEach(t, func(t *testing.T, a, b net.Conn) {
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		move := func(d time.Duration) {
			if err := b.SetReadDeadline(time.Now().Add(d)); err != nil {
				t.Error(err)
			}
		}
		late := 0
		next := make(chan struct{}, 4) // a piece is sent at each of four deadlines
		go func() {
			for data := pattern(20_000); len(data) > 0; data = data[5000:] {
				<-next
				a.Write(data[:5000])
			}
		}()
		r.OnDeadline(func() error {
			if late++; late <= 4 {
				next <- struct{}{}
			}
			move(time.Millisecond)
			return nil
		})
		move(time.Microsecond)
		buf, err := r.Next(20_000)
		if err != nil || string(buf.Bytes()) != string(pattern(20_000)) {
			t.Errorf("Next: %d bytes, %v, after %d deadlines", buf.Len(), err, late)
		}
		buf.Free()
		r.OnDeadline(func() error { return errEnough })
		move(time.Microsecond)
		if _, err := r.Peek(1); err != errEnough {
			t.Errorf("Peek: %v", err)
		}
		if _, err := r.Read(make([]byte, 8000)); err != errEnough {
			t.Errorf("Read: %v", err)
		}
	})
}
