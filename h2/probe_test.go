package h2

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/net/http2"
)

// giveUp opens a stream and resets it at once.
func giveUp(t *testing.T, c *Conn) {
	t.Helper()
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
}

func isPing(s seen) bool { return s.typ == http2.FramePing && !s.ack }

func isReset(id uint32) func(seen) bool {
	return func(s seen) bool { return s.typ == http2.FrameRSTStream && s.id == id }
}

// awaitHeard returns when the frames that have come count for all streams opened before.
func awaitHeard(t *testing.T, c *Conn) {
	t.Helper()
	eventually(t, "frames", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.pings.heard == c.nextID && c.pings.doubtful == 0 && !c.pings.probing
	}, func() any { return c.pings.heard })
}

func openable(c *Conn) error {
	_, err := c.Open(nil, newCall(), &Out{Block: testRequest, Ending: End})
	return err
}

// TestProbeResets: the streams of requests that a client gives up, and since which nothing has come, fill the connection to a
// peer that is silent, with one PING; once anything comes they count no more.
func TestProbeResets(t *testing.T) {
	const limit = 5
	for name, answer := range map[string]func(r *raw){
		"PING's answer": func(r *raw) { r.fr.WritePing(true, resetPing) },
		"another frame": func(r *raw) { r.fr.WriteWindowUpdate(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r, c, _ := rawClient(t, Config{ProbeResets: Permit}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
			awaitHeard(t, c) // SETTINGS, too: what comes later is the answer
			for range limit {
				giveUp(t, c)
			}
			if err := openable(c); !errors.Is(err, ErrStreamLimit) || c.CanOpen() || c.StreamLimit() != 0 {
				t.Errorf("another stream: %v, CanOpen %v, StreamLimit %d", err, c.CanOpen(), c.StreamLimit())
			}
			r.wait("last reset", isReset(2*limit-1))
			r.wait("PING", isPing)
			waiting := make(chan error, 1)
			go func() {
				s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
				if err == nil {
					s.Release()
				}
				waiting <- err
			}()
			answer(r)
			if err := <-waiting; err != nil {
				t.Error(err)
			}
			eventually(t, "room", func() bool { return c.StreamLimit() >= limit-1 }, func() any { return c.StreamLimit() })
			if n := r.count(isPing); n != 1 && name == "another frame" {
				t.Errorf("%d PINGs", n)
			}
		})
	}
}

// TestProbeResetsSpared: no PING is sent where it is not needed, or where a server of gRPC would count it: when something has come
// since the request, or the PING before was answered and no HEADERS has come since, unless the connection takes no more streams.
func TestProbeResetsSpared(t *testing.T) {
	const limit = 5
	r, c, _ := rawClient(t, Config{ProbeResets: Permit}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
	awaitHeard(t, c)
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	r.fr.WriteWindowUpdate(0, 1)
	awaitHeard(t, c)
	s.Release()
	giveUp(t, c)
	r.wait("PING", isPing)
	if _, ok := r.wait("reset", isReset(3)); !ok || r.count(isPing) != 1 {
		t.Errorf("%d PINGs, one is for the second request", r.count(isPing))
	}
	r.fr.WritePing(true, resetPing)
	awaitHeard(t, c)
	for range limit - 1 {
		giveUp(t, c)
	}
	r.wait("reset", isReset(3+2*(limit-1)))
	if n := r.count(isPing); n != 1 {
		t.Errorf("%d PINGs, though the first was answered and no HEADERS has come", n)
	}
	giveUp(t, c)
	r.wait("second PING", func(s seen) bool { return isPing(s) && r.pings() == 2 })
	r.fr.WritePing(true, resetPing)
	awaitHeard(t, c)
	s, err = c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	r.headers(s.ID(), More, ":status", "200")
	awaitHeard(t, c)
	s.Release()
	giveUp(t, c)
	r.wait("third PING", func(s seen) bool { return isPing(s) && r.pings() == 3 })
}

// pings returns how many PINGs have come. r.mu is held.
func (r *raw) pings() (n int) {
	for _, s := range r.seen {
		if isPing(s) {
			n++
		}
	}
	return n
}

// TestProbeResetsDenied: without Config.ProbeResets streams that were reset do not count.
func TestProbeResetsDenied(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	for range 10 {
		giveUp(t, c)
	}
	r.wait("last reset", isReset(19))
	if n := r.count(isPing); n != 0 {
		t.Errorf("%d PINGs", n)
	}
}
