package h2

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestQuietBecomesIdle: a quiet connection becomes idle once its last stream has ended, although the peer sends nothing.
func TestQuietBecomesIdle(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for name, unpoll := range map[string]func(nc net.Conn) net.Conn{
		"polled":       func(nc net.Conn) net.Conn { return nc },
		"not pollable": func(nc net.Conn) net.Conn { return unpolled{nc.(*net.TCPConn)} },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpWiring(t)
			pool := tarntest.NewPool(t)
			rec := newRecorder(t)
			rec.serve = echo(t, pool)
			s, r, ended := eagerServer(t, pool, rec, a, unpoll(b))
			answer := make(chan struct{})
			rec.mu.Lock()
			rec.serve = func(s *Stream, _ *call) {
				<-answer
				s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer})
			}
			rec.mu.Unlock()
			r.request(1, End)
			awaitQuietUnpolled(t, s)
			close(answer)
			r.wait("the response", func(s seen) bool { return s.id == 1 && s.end })
			awaitIdle(t, s)
			s.Close()
			a.Close()
			<-ended
			rec.calls.Wait()
		})
	}
}

// eagerServer starts a server on b that rests as soon as it can, and greets it from a. ended gets the error with which it ends.
func eagerServer(t *testing.T, pool *tarn.Pool, rec *recorder, a, b net.Conn) (s *Conn, r *raw, ended chan error) {
	t.Helper()
	s, err := NewServer(b, rec, Config{Pool: pool, idleAfter: time.Millisecond, poller: quickPoller()})
	if err != nil {
		t.Fatal(err)
	}
	s.AllowIdle()
	ended = make(chan error, 1)
	s.Start(func(err error) { ended <- err })
	r = newRaw(t, a)
	io.WriteString(a, Preface)
	r.fr.WriteSettings()
	r.fr.WriteSettingsAck()
	go r.listen()
	return s, r, ended
}

// awaitQuietUnpolled is awaitQuiet also where it is the connection's own goroutine that waits for input.
func awaitQuietUnpolled(t *testing.T, s *Conn) {
	t.Helper()
	eventually(t, "a quiet connection", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.rest == quiet
	}, s.idleness)
}

// resting is a connection that counts how often reading it is stopped: then its read deadline is lifted.
type resting struct {
	net.Conn
	rests chan time.Time
}

func (r resting) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		r.rests <- time.Now()
	}
	return r.Conn.SetReadDeadline(t)
}

// TestQuietAfterSilence: a connection with a stream becomes quiet when nothing has come for 1.5 to 2.5 seconds, and not while something comes each
// second, in fake time.
func TestQuietAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		nc := resting{b, make(chan time.Time, 100)}
		rec := newRecorder(t)
		rec.serve = func(*Stream, *call) {}
		s, err := NewServer(nc, rec, Config{Pool: tarntest.NewPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		s.mayIdle = true
		ended := make(chan error, 1)
		s.Start(func(err error) { ended <- err })
		r := newRaw(t, a)
		io.WriteString(a, Preface)
		r.fr.WriteSettings()
		r.fr.WriteSettingsAck()
		go r.listen()
		r.request(1, More)
		var last time.Time
		for _, every := range []time.Duration{100 * time.Millisecond, time.Second} {
			for range 20 {
				r.fr.WriteData(1, false, []byte("x"))
				last = time.Now()
				<-time.After(every)
			}
		}
		if n := len(nc.rests); n > 0 {
			t.Errorf("reading was stopped %d times", n)
		}
		if d := (<-nc.rests).Sub(last); d < 3*idleAfter || d > 5*idleAfter {
			t.Errorf("reading was stopped %v after the last frame", d)
		}
		s.Close()
		a.Close()
		<-ended
	})
}

// TestQuietWrite: a Write that waits for a window does not keep its connection from being quiet, and ends with its context.
func TestQuietWrite(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	c, end := mute(t, Config{Pool: tarntest.NewPool(t)})
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Write(ctx, &Out{Data: tarn.Shared().Copy(make([]byte, 1<<20))}) }()
	eventually(t, "a Write that waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		w := c.streams.get(s.ID()).wait
		return w != nil && w.active
	}, c.idleness)
	awaitQuiet(t, c)
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	s.Release()
	awaitIdle(t, c)
	c.Close()
	<-end
}

// TestIdleCancelledCall: a client that opens a stream while it is idle, and resets it before anything has come, is idle again.
func TestIdleCancelledCall(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	c, end := mute(t, Config{})
	for range 3 {
		awaitPolled(t, c)
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
		awaitIdle(t, c)
	}
	c.Close()
	<-end
}

// TestQuietFrames: frames of a peer that concern no stream, or one that has ended, wake a quiet connection, which acts on them.
func TestQuietFrames(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for name, send := range map[string]func(r *raw) func(seen) bool{
		"SETTINGS": func(r *raw) func(seen) bool {
			r.fr.WriteSettings()
			return func(s seen) bool { return s.typ == http2.FrameSettings && s.ack }
		},
		"PING": func(r *raw) func(seen) bool {
			r.fr.WritePing(false, [8]byte{})
			return func(s seen) bool { return s.typ == http2.FramePing && s.ack }
		},
		"RST_STREAM of the stream": func(r *raw) func(seen) bool {
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
			r.request(3, More)
			r.fr.WriteData(3, true, []byte("x"))
			return func(s seen) bool { return s.id == 3 && s.end }
		},
		"part of a frame": func(r *raw) func(seen) bool {
			r.nc.Write([]byte{0, 0, 8, byte(framePing)})
			r.nc.Write([]byte{0, 0, 0, 0, 0})
			r.nc.Write(make([]byte, 8))
			return func(s seen) bool { return s.typ == http2.FramePing && s.ack }
		},
		"a broken frame": func(r *raw) func(seen) bool {
			r.fr.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7))
			return func(s seen) bool { return s.typ == http2.FrameGoAway && s.code == http2.ErrCodeFrameSize }
		},
		"WINDOW_UPDATE of nothing": func(r *raw) func(seen) bool {
			r.fr.WriteWindowUpdate(1, 0)
			return func(s seen) bool { return s.typ == http2.FrameRSTStream && s.id == 1 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpWiring(t)
			pool := tarntest.NewPool(t)
			rec := newRecorder(t)
			rec.serve = echo(t, pool)
			s, err := NewServer(b, rec, Config{Pool: pool, idleAfter: 100 * time.Microsecond, poller: quickPoller()})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			s.Start(func(err error) { ended <- err })
			r := newRaw(t, a)
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			r.fr.WriteSettingsAck()
			go r.listen()
			r.request(1, More)
			awaitQuiet(t, s)
			r.wait("effect", send(r))
			s.Close()
			a.Close()
			<-ended
			rec.calls.Wait()
		})
	}
}

// TestQuietKeepsNoWriter: what is sent on a quiet connection leaves no goroutine behind that would send more, also where it is the connection's
// own goroutine that waits for input.
func TestQuietKeepsNoWriter(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	a, b := tcpWiring(t)
	pool := tarntest.NewPool(t)
	rec := newRecorder(t)
	handling := make(chan *Stream, 1)
	rec.serve = func(s *Stream, k *call) {
		handling <- s
		<-k.reset
	}
	s, r, ended := eagerServer(t, pool, rec, a, unpolled{b.(*net.TCPConn)})
	r.request(1, End)
	st := <-handling
	awaitQuietUnpolled(t, s)
	if err := st.Write(context.Background(), &Out{Block: testResponse}); err != nil {
		t.Error(err)
	}
	r.wait("the response", func(s seen) bool { return s.id == 1 && s.typ == http2.FrameHeaders })
	eventually(t, "everything to be sent", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.send.inactive()
	}, s.idleness)
	s.mu.Lock()
	if s.send.parked {
		t.Error("a goroutine waits for more to send")
	}
	if s.rest != quiet {
		t.Errorf("rest %d", s.rest)
	}
	s.mu.Unlock()
	s.Close()
	a.Close()
	<-ended
	rec.calls.Wait()
}
