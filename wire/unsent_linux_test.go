package wire_test

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
	"golang.org/x/sys/unix"
)

// unsent returns how many bytes the system has not sent yet.
func unsent(t *testing.T, c net.Conn) (n int) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLimitUnsent fills the socket of a peer that does not read. The system holds no more unsent than the limit and some
// segments.
func TestLimitUnsent(t *testing.T) {
	const (
		limit    = 256 << 10
		segments = 256 << 10
	)
	a, _ := listenPair("tcp", "127.0.0.1:0")(t)
	wire.LimitUnsent(a, limit)
	w := wire.NewWriter(a, tarntest.NewPool(t))
	defer w.Release()
	mem := make([]byte, 64<<20)
	batch := w.NewBatch()
	batch.Borrow(mem)
	sent, err := w.TrySend(batch)
	if err != nil || sent == wire.Sent {
		t.Fatalf("a socket that took everything: %v, %v", sent, err)
	}
	batch.Clear()
	if n := unsent(t, a); n > limit+segments {
		t.Errorf("the system holds %d bytes unsent, with a limit of %d", n, limit)
	}
}

// TestLimitUnsentOfOthers: connections that have no such limit, or are closed, stay as they are.
func TestLimitUnsentOfOthers(t *testing.T) {
	a, _ := listenPair("unix", "")(t)
	wire.LimitUnsent(a, 1)
	b, _ := net.Pipe()
	wire.LimitUnsent(b, 1)
	c, _ := listenPair("tcp", "127.0.0.1:0")(t)
	c.Close()
	wire.LimitUnsent(c, 1)
}
