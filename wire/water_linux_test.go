package wire_test

import (
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// markOf returns the low-water mark of c's socket in bytes.
func markOf(t *testing.T, c net.Conn) (n int) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { n, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitMark waits until the mark of c's socket is n.
func awaitMark(t *testing.T, c net.Conn, n int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); markOf(t, c) != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("the mark is %d after 30 s, not %d", markOf(t, c), n)
		}
	}
}

// TestLowWaterIsPutBack reads the socket's mark: it is set during a long read, and 1 again after
// Release.
func TestLowWaterIsPutBack(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	r := wire.NewReader(b, tarntest.NewPool(t))
	r.SetLowWater(100_000)
	done := make(chan error)
	go func() {
		_, err := r.ReadFull(make([]byte, 200_000))
		done <- err
	}()
	a.Write(make([]byte, 10))
	awaitMark(t, b, 100_000)
	a.Write(make([]byte, 199_990))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.Release()
	if n := markOf(t, b); n != 1 {
		t.Fatalf("the mark is left at %d", n)
	}
}

// TestLowWaterEnds interrupts a long read for which the mark is set, to have it wait for any byte from then on.
func TestLowWaterEnds(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	r := wire.NewReader(b, tarntest.NewPool(t))
	defer r.Release()
	r.SetLowWater(100_000)
	r.OnDeadline(func() error {
		r.SetLowWater(0)
		return b.SetReadDeadline(time.Time{})
	})
	done := make(chan error)
	go func() {
		_, err := r.ReadFull(make([]byte, 200_000))
		done <- err
	}()
	awaitMark(t, b, 100_000)
	b.SetReadDeadline(time.Unix(1, 0))
	awaitMark(t, b, 1)
	a.Write(make([]byte, 200_000))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestBusyLowWater reads the socket's mark: it is set from a read on, 1 while a read waits, which one byte ends, and
// 1 after Release.
func TestBusyLowWater(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	r := wire.NewReader(b, tarntest.NewPool(t))
	r.SetBusyLowWater(16 << 10)
	next := func() {
		t.Helper()
		if _, err := r.Peek(1); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Discard(r.Buffered()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		a.Write([]byte{1})
		next()
		if n := markOf(t, b); n != 16<<10 {
			t.Fatalf("the mark is %d after a read", n)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			next()
		}()
		awaitMark(t, b, 1)
		a.Write([]byte{1})
		<-done
	}
	r.Release()
	if n := markOf(t, b); n != 1 {
		t.Fatalf("the mark is left at %d", n)
	}
}
