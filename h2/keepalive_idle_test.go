package h2

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// pinged is the peer of a connection with keepalive.
type pinged struct {
	*raw
	answers bool          // PINGs
	pings   atomic.Int64  // that have come
	third   chan struct{} // closed by the third
}

// serve plays the peer until the connection ends. A request is answered if respond is set.
func (p *pinged) serve(side side, respond bool) {
	if side == client { // of the connection under test
		if _, err := io.ReadFull(p.nc, make([]byte, len(Preface))); err != nil {
			return
		}
	} else {
		io.WriteString(p.nc, Preface)
	}
	p.fr.WriteSettings()
	if side == server {
		p.request(1, End)
	}
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.fr.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			if side == client && respond {
				p.headers(f.StreamID, End, ":status", "200")
			}
		case *http2.PingFrame:
			if f.IsAck() {
				continue
			}
			if p.answers {
				p.fr.WritePing(true, f.Data)
			}
			if p.pings.Add(1) == 3 {
				close(p.third)
			}
		}
	}
}

// TestKeepaliveTable: keepalive pings a silent peer each Keepalive.Time, and ends the connection when there is no answer,
// whether the connection is idle or has a stream. That PINGs are sent is what those peers find that answer: the end may make
// the kernel drop what a slow peer has not read.
func TestKeepaliveTable(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for name, w := range map[string]wiring{"tcp": tcpWiring, "unix": unixWiring, "tls": tlsWiring, "wrapped": wrappedWiring, "hidden": hiddenWiring} {
		for _, side := range []side{client, server} {
			for _, idle := range []bool{true, false} {
				for _, answers := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/server %v/idle %v/answers %v", name, side == server, idle, answers), func(t *testing.T) {
						t.Parallel()
						testKeepalive(t, w, side, idle, answers)
					})
				}
			}
		}
	}
}

// TestIdleIsNotHeard: becoming idle does not count as having received something, which would put off the next PING, on a
// connection that is woken for that PING and becomes idle again, for ever.
func TestIdleIsNotHeard(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	near, far := tcpWiring(t)
	defer far.Close()
	const after = 200 * time.Millisecond
	s, err := NewServer(near, newRecorder(t), Config{Pool: tarntest.NewPool(t), idleAfter: after, Keepalive: Keepalive{Time: time.Hour, WithoutStream: Permit}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s.Start(func(err error) { ended <- err })
	p := &pinged{raw: newRaw(t, far)}
	go func() {
		io.WriteString(far, Preface)
		p.fr.WriteSettings()
		p.fr.WriteSettingsAck()
		silent(far)
	}()
	awaitIdle(t, s)
	if d := now().since(instant(s.lifetime.received.Load())); d < after {
		t.Errorf("an idle connection has received something %v ago", d)
	}
	s.Close()
	<-ended
}

func hiddenWiring(t testing.TB) (net.Conn, net.Conn) {
	a, b := tcpWiring(t)
	return faultnet.Hidden{Conn: a}, faultnet.Hidden{Conn: b}
}

func testKeepalive(t *testing.T, w wiring, side side, idle, answers bool) {
	near, far := w(t)
	if side == server {
		near, far = far, near
	}
	cfg := Config{Pool: tarntest.NewPool(t), idleAfter: 2 * time.Millisecond,
		Keepalive: Keepalive{Time: 20 * time.Millisecond, Timeout: 20 * time.Millisecond, WithoutStream: Permit}}
	if answers {
		cfg.Keepalive.Timeout = 30 * time.Second
	}
	newMaker := Clients
	if side == server {
		newMaker = Servers
	}
	maker, err := newMaker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &pinged{raw: newRaw(t, far), answers: answers, third: make(chan struct{})}
	over := make(chan struct{})
	go func() { defer close(over); p.serve(side, idle) }()
	rec := newRecorder(t)
	release := make(chan struct{})
	rec.serve = func(s *Stream, _ *call) {
		if !idle {
			<-release
		}
		s.Post(&Out{Block: testResponse, TrailerBlock: testTrailer})
	}
	if side == client {
		rec.serve = nil
	}
	c := maker.Make(near, rec)
	if _, ok := near.(wrapped); ok {
		c.AllowIdle()
	}
	ended := make(chan error, 1)
	c.Start(func(err error) { ended <- err })
	if side == client {
		k := newCall()
		s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		if idle {
			<-k.done
			s.Release()
		} else {
			defer func() { <-k.done; s.Release() }()
		}
	}
	if answers {
		<-p.third
		if err := c.Err(); err != nil {
			t.Errorf("ended with %v though the peer answers", err)
		}
		c.Close()
	}
	err = <-ended
	if n := maker.Stats().KeepaliveTimeouts; n != 1 && !answers || n != 0 && answers {
		t.Errorf("%d keepalive timeouts; ended with %v", n, err)
	}
	<-over
	close(release)
	rec.calls.Wait()
	far.Close()
}
