package h2

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"golang.org/x/net/http2"
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
				r := &c.inflow
				r.rtt, r.timed, r.unacked = 0, 0, 1
				r.sent = now() - instant(certainRTT)
				_, err := c.settings(frame{typ: frameSettings, flags: flagAck}, nil)
				c.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				if n := limitOf(t, c); n != unsentLimit {
					t.Errorf("the limit is %d bytes, not %d", n, unsentLimit)
				}
			}
		})
	}
}

// limitOf returns how many bytes the system may hold for c that it has not sent.
func limitOf(t *testing.T, c *Conn) (n int) {
	t.Helper()
	nc := c.nc
	if s, ok := nc.(*tls.Conn); ok {
		nc = s.NetConn()
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		n, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUnsentIsLimitedWhereThePeerIsSlow: a peer that is near and reads slowly has no megabytes in the socket either, before which
// a PING would not come.
func TestUnsentIsLimitedWhereThePeerIsSlow(t *testing.T) {
	p, l := linkPair(t, faultnet.TCP, big, big)
	done := make(chan struct{})
	least := math.MaxInt
	p.sh.serve = func(s *Stream, _ *call) {
		defer close(done)
		p.s.mu.Lock()
		p.s.send.maxUnsent = unlimited // as of a peer that was near and fast
		p.s.mu.Unlock()
		s.Post(&Out{Block: testResponse})
		l.Stall()
		resume := time.AfterFunc(2*slowBatch, l.Resume)
		defer resume.Stop()
		for range 16 {
			if err := s.Write(context.Background(), &Out{Data: p.pool.Get(1 << 20)}); err != nil {
				t.Errorf("Write: %v", err)
			}
			least = min(least, limitOf(t, p.s)) // quick batches lift it again
		}
		s.Post(&Out{Ending: End})
	}
	s, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	if within(t, "the response", done) {
		if least > unsentLimit {
			t.Errorf("the limit was never below %d bytes, above %d", least, unsentLimit)
		}
	}
	l.Break(faultnet.RST)
	s.Release()
}

// TestUnsentIsLimitedFromTheBeginning: a peer that is near may be slow, and the system would take megabytes for it before that shows.
func TestUnsentIsLimitedFromTheBeginning(t *testing.T) {
	p := newPair(t, tcpWiring, big, big)
	p.sh.serve = func(s *Stream, _ *call) {
		s.Write(context.Background(), &Out{Block: testResponse, Data: p.pool.Get(2 * unsentLimit), Ending: End})
	}
	p.do(t, nil)
	if n := limitOf(t, p.s); n < minBlocked || n > unsentLimit {
		t.Errorf("the limit is %d bytes, not %d to %d", n, minBlocked, unsentLimit)
	}
}

// TestSlowOnce: a peer that took a batch slowly once, as one does whose process waits for a processor, is near and fast again after enough quick
// batches in a row.
func TestSlowOnce(t *testing.T) {
	p := newPair(t, tcpWiring, big, big)
	p.do(t, nil)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	s := &p.s.send
	s.sent = fastAfter
	quick := func() { s.pace(blockedLimit, fastBatch/2) }
	if quick(); s.maxUnsent != unlimited {
		t.Fatalf("the system may hold %d bytes unsent for a peer that is near and fast", s.maxUnsent)
	}
	s.pace(blockedLimit, slowBatch)
	for n := 0; ; n++ {
		if limited := s.maxUnsent != unlimited; limited != (n <= quickAgain) {
			t.Errorf("after %d quick batches: limited %v", n, limited)
		}
		if n > quickAgain {
			return
		}
		quick()
	}
}

// TestNearWithLateAcknowledgements: a peer whose program acknowledges SETTINGS late is near nevertheless if the network is.
func TestNearWithLateAcknowledgements(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
	r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
	awaitWindow(t, c, 64<<20)
	c.mu.Lock()
	c.inflow.rtt = 10 * steadyRTT
	c.mu.Unlock()
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	fast := func() bool {
		if err := s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(fastLimit)}); err != nil {
			t.Error(err)
			return true
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.send.maxUnsent == unlimited
	}
	for range 60 { // a busy machine may take some slowly
		if fast() {
			s.Reset(Cancel)
			return
		}
	}
	t.Error("the peer is not near and fast after 60 MiB")
	s.Reset(Cancel)
}
