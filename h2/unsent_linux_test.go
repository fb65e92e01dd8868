package h2

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"golang.org/x/sys/unix"
)

// TestUnsentIsLimited: once a round trip is known to be long, the system holds no more unsent than unsentLimit. Small
// calls and WINDOW_UPDATEs waited for some megabytes of DATA in the socket of a slow network; streams in both
// directions that fill it had a sixth to a half of it.
func TestUnsentIsLimited(t *testing.T) {
	for name, wiring := range map[string]wiring{
		"plain":   func(t testing.TB) (net.Conn, net.Conn) { return faultnet.Dialed(t) },
		"tls":     tlsWiring,
		"wrapped": wrappedWiring,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, wiring, Config{idleAfter: time.Hour}, Config{idleAfter: time.Hour})
			p.do(t, nil)
			for _, c := range []*Conn{p.c, p.s} {
				c.mu.Lock()
				r := &c.recv
				r.rtt, r.timed, r.unacked = 0, 0, 1
				r.settingsSent = time.Now().Add(-certainRTT)
				_, err := c.settings(frame{typ: frameSettings, flags: flagAck}, nil)
				c.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				nc := c.nc
				if s, ok := nc.(*tls.Conn); ok {
					nc = s.NetConn()
				}
				raw, err := nc.(syscall.Conn).SyscallConn()
				if err != nil {
					t.Fatal(err)
				}
				var n int
				raw.Control(func(fd uintptr) {
					n, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
				})
				if err != nil || n != unsentLimit {
					t.Errorf("the limit is %d bytes, %v, not %d", n, err, unsentLimit)
				}
			}
		})
	}
}
