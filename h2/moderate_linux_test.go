package h2

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestModeratedLowWater reads the socket's low-water mark: between moderated reads it is above a segment's length, and
// without moderation it is left alone.
func TestModeratedLowWater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := Clients(Config{Pool: tarntest.NewPool(t), ReadModeration: Permit})
	if err != nil {
		t.Fatal(err)
	}
	c := m.Make(nc, newRecorder(t))
	for _, x := range []struct {
		name    string
		streams int
		frames  int
		want    int
	}{
		{"few streams", moderateFrom - 1, 1, 1},
		{"moderated", moderateFrom, 1, moderateBytes},
		{"many frames a read", moderateFrom, goodRead, 1},
	} {
		c.makeReader()
		c.in.frames = x.frames
		c.in.paused = time.Now().Add(time.Hour) // the read before was just now, however slow this machine is
		c.moderate(x.streams)
		peer.Write([]byte{1})
		if _, err := c.in.r.Peek(1); err != nil {
			t.Fatal(err)
		}
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT) })
		if err != nil || max(got, 1) != x.want { // it is 0 until it is set
			t.Errorf("%s: the low-water mark is %d, not %d (%v)", x.name, got, x.want, err)
		}
		c.in.r.Release()
	}
}
