package wire_test

import (
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestLowWaterIsPutBack reads the socket's mark: it is set during a long read, and 1 again after
// Release.
func TestLowWaterIsPutBack(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	mark := func() (n int) {
		raw, err := b.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { n, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := wire.NewReader(b, tarntest.NewPool(t))
	r.SetLowWater(100_000)
	done := make(chan error)
	go func() {
		_, err := r.ReadFull(make([]byte, 200_000))
		done <- err
	}()
	a.Write(make([]byte, 10))
	for mark() != 100_000 { // or the test runs into its time limit
		runtime.Gosched()
	}
	a.Write(make([]byte, 199_990))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.Release()
	if n := mark(); n != 1 {
		t.Fatalf("the mark is left at %d", n)
	}
}
