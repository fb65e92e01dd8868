package h2

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestRapidReset is CVE-2023-44487: streams opened and reset at once.
func TestRapidReset(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		gate := make(chan struct{})
		resets := 10
		if t.Kind != faultnet.TCP {
			resets = 1 // a shorter form
		}
		r, s, _ := rawServer(t, Config{MaxStreams: 50, Limits: Limits{Resets: resets}}, func(s *Stream, k *call) { <-gate })
		defer close(gate)
		bounded(t, s, 110, 1<<20, func() {
			if r.floodRequests(1_000_000, func(fr *http2.Framer, id uint32) { fr.WriteRSTStream(id, http2.ErrCodeCancel) }) == 1_000_000 {
				t.Error("all resets were taken")
			}
		})
		r.wantEnd(s, EnhanceYourCalm)
	})
}

// TestHandlersBounded: handlers that go on running after their streams were reset
// still count against the limit on streams.
func TestHandlersBounded(t *testing.T) {
	gate := make(chan struct{})
	r, s, _ := rawServer(t, Config{MaxStreams: 10}, func(s *Stream, k *call) { <-gate })
	bounded(t, s, 26, 1<<20, func() {
		for i := range 100 {
			r.request(uint32(2*i+1), End)
			if i < 50 {
				r.fr.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
			}
		}
		r.wantReset(199, RefusedStream)
	})
	if n := r.count(func(s seen) bool { return s.typ == http2.FrameRSTStream && s.code == http2.ErrCodeRefusedStream }); n != 80 {
		t.Errorf("%d streams refused, not 80", n)
	}
	close(gate)
}

// TestMadeYouReset is CVE-2025-8671: the peer makes the server reset its streams.
func TestMadeYouReset(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		gate := make(chan struct{})
		var lim Limits
		if t.Kind != faultnet.TCP {
			lim.Resets = 10 // a shorter form
		}
		r, s, _ := rawServer(t, Config{MaxStreams: 50, Limits: lim}, func(s *Stream, k *call) { <-gate })
		defer close(gate)
		bounded(t, s, 110, 1<<20, func() {
			if r.floodRequests(1_000_000, func(fr *http2.Framer, id uint32) { fr.WriteWindowUpdate(id, 0) }) == 1_000_000 {
				t.Error("the connection survived all broken streams")
			}
		})
		r.wantEnd(s, EnhanceYourCalm)
	})
}

// TestRefusedReset is the rapid reset of streams that are refused, since handlers of
// earlier ones take all the room. TestRefusedResetHeldBack shows when the connection ends.
func TestRefusedReset(t *testing.T) {
	gate := make(chan struct{})
	r, s, _ := rawServer(t, Config{MaxStreams: 10, Limits: Limits{Resets: 10, Useless: 100}}, func(s *Stream, k *call) { s.Started(); <-gate })
	defer close(gate)
	bounded(t, s, 26, 1<<20, func() {
		r.flood(100_000, func(i int) error {
			id := uint32(2*i + 1)
			if err := r.request(id, End); err != nil {
				return err
			}
			return r.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		})
	})
}

// TestRefusedUnread: refusals that the peer does not read are bounded, however slowly it
// makes the requests.
func TestRefusedUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		lim := Limits{Resets: 1 << 20, Useless: 10, Replies: 1 << 20} // not ended for another reason
		toServer(t, a, b, neverEnded{}, Config{Pool: tarntest.NewPool(t), MaxStreams: 1, Limits: lim}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			const refusal = 13 // bytes of a RST_STREAM
			most := 2*refuseAbove/refusal + 1
			sent := 0
			for ; sent < most && r.request(uint32(2*sent+1), End) == nil; sent++ {
			}
			if sent == most {
				t.Errorf("%d refusals wait", sent)
			}
			<-s.Done()
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), "does not read") {
				t.Errorf("the connection ended with %v", err)
			}
		})
	})
}

// TestBrownOut: calls that time out while the server is slow do not cost the
// connection, however many: their handlers were started, or they were answered
// meanwhile.
func TestBrownOut(t *testing.T) {
	for name, serve := range map[string]func(s *Stream, k *call){
		"started":  func(s *Stream, k *call) { s.Started(); <-k.reset },
		"answered": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, s, rec := rawServer(t, Config{Limits: Limits{Resets: 10}}, serve)
			for i := range 1000 {
				id := uint32(2*i + 1)
				r.request(id, End)
				if serve == nil {
					r.wait("answer", func(s seen) bool { return s.id == id && s.end })
				} else {
					awaitStarted(t, s)
				}
				r.fr.WriteRSTStream(id, http2.ErrCodeCancel)
				awaitStreams(t, s, 0)
			}
			rec.mu.Lock()
			rec.serve = echo(t, s.cfg.Pool)
			rec.mu.Unlock()
			r.lives(2001)
		})
	}
}

// TestRefusedWithinRights: a peer that keeps to the limit, while handlers of streams
// that it has reset still run, is refused and keeps its connection.
func TestRefusedWithinRights(t *testing.T) {
	gate := make(chan struct{})
	r, s, rec := rawServer(t, Config{MaxStreams: 1, Limits: Limits{Resets: 10}}, func(s *Stream, k *call) { s.Started(); <-gate })
	for id := uint32(1); id < 5; id += 2 {
		r.request(id, End)
		awaitStarted(t, s)
		r.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	for i := 2; i <= 1000; i++ {
		r.request(uint32(2*i+1), End)
		r.wantReset(uint32(2*i+1), RefusedStream)
	}
	rec.mu.Lock()
	rec.serve = echo(t, s.cfg.Pool)
	rec.mu.Unlock()
	close(gate)
	awaitStreams(t, s, 0)
	r.lives(2003)
}

// TestRoomOfEndedStreams: a peer at the limit that resets a stream and opens another at once is served, and refused when as many
// handlers of streams that have ended still run.
func TestRoomOfEndedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		running := make(chan struct{})
		serve := func(s *Stream, k *call) {
			s.Started()
			<-k.reset
			<-running
		}
		a, b := net.Pipe()
		r, s, rec := rawServerOn(t, a, b, Config{MaxStreams: limit}, serve)
		next := uint32(1)
		refused := func() int {
			synctest.Wait()
			return r.count(func(s seen) bool { return s.typ == http2.FrameRSTStream && Code(s.code) == RefusedStream })
		}
		for range 2 * limit {
			r.request(next, End)
			synctest.Wait()
			r.fr.WriteRSTStream(next, http2.ErrCodeCancel)
			next += 2
		}
		if n := refused(); n != 0 {
			t.Errorf("%d streams were refused while fewer than %d handlers ran", n, 2*limit)
		}
		r.request(next, End)
		next += 2
		if n := refused(); n != 1 {
			t.Errorf("%d streams were refused while %d handlers ran, not 1", n, 2*limit)
		}
		close(running)
		synctest.Wait()
		rec.mu.Lock()
		rec.serve = echo(t, s.cfg.Pool)
		rec.mu.Unlock()
		r.lives(next)
	})
}

// TestResetAfterDeadline: the reset of a stream whose own deadline has passed is not
// counted, though its handler was never started; before the deadline it is.
func TestResetAfterDeadline(t *testing.T) {
	for _, past := range []bool{true, false} {
		a, b := tcpWiring(t)
		h := &deadlineHandler{at: time.Now().Add(time.Hour)}
		if past {
			h.at = time.Now().Add(-time.Millisecond)
		}
		s, err := NewServer(b, h, Config{Pool: tarntest.NewPool(t), Limits: Limits{Resets: 10}})
		if err != nil {
			t.Fatal(err)
		}
		go s.Run()
		r := newRaw(t, a)
		a.Write([]byte(Preface))
		r.fr.WriteSettings()
		go r.listen()
		resets := 100
		if !past {
			resets = 1_000_000 // until the connection ends: 5,000 a second are free
		}
		r.flood(resets, func(i int) error {
			if err := r.request(uint32(2*i+1), End); err != nil {
				return err
			}
			return r.fr.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		})
		if past {
			r.fr.WritePing(false, [8]byte{1})
			r.wait("the answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
		} else {
			r.wantEnd(s, EnhanceYourCalm)
		}
		a.Close()
		<-s.Done()
	}
}

// deadlineHandler releases each stream when it is reset.
type deadlineHandler struct{ at time.Time }

func (h *deadlineHandler) OnHeaders(s *Stream, _ *Header, _ Ending) { s.SetDeadline(h.at) }

func (h *deadlineHandler) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }

func (h *deadlineHandler) OnReset(s *Stream, _ error) { s.Release() }

// TestResetOfEvenStream: a RST_STREAM on a stream that only a server could have opened is an
// error, also beside one that was reset.
func TestResetOfEvenStream(t *testing.T) {
	r, _, _ := rawServer(t, Config{}, nil)
	r.headers(1, End, append(slices.Clone(rawRequest), "Bad", "x")...)
	r.wantReset(1, ProtocolError)
	r.fr.WriteRSTStream(2, http2.ErrCodeCancel)
	r.wantGoAway(ProtocolError)
}

// resetEarly makes the server reset the first n streams, on each of which a client still sends.
func (r *raw) resetEarly(rec *recorder, n int) {
	r.t.Helper()
	rec.early.Store(true)
	for i := range n {
		r.request(uint32(2*i+1), More)
		if i%100 == 99 || i == n-1 { // no more than that are open at a time
			r.wait("RST_STREAM", func(s seen) bool { return s.typ == http2.FrameRSTStream && s.id == uint32(2*i+1) })
		}
	}
	rec.early.Store(false)
}

// TestDataOfManyResetStreams: a client may send DATA for any number of streams before it knows that the server has reset them, as
// Node's does when calls with short deadlines queue up in it. That is not its fault, and the connection continues.
func TestDataOfManyResetStreams(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		const streams = 3 * recentMax
		r, s, rec := rawServer(t, Config{}, nil)
		r.resetEarly(rec, streams)
		for i := range streams {
			r.fr.WriteData(uint32(2*i+1), true, []byte("late"))
		}
		r.lives(2*streams + 1)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestDataOfResetStreamsBetweenCalls: DATA of streams that the server has reset does not count together with what came before the
// client's last new stream, so that the number of such frames is not bounded for a client that makes calls.
func TestDataOfResetStreamsBetweenCalls(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		const streams, useless = 2 * recentMax, 10
		r, s, rec := rawServer(t, Config{Limits: Limits{Useless: useless}}, nil)
		r.resetEarly(rec, streams)
		for i := range streams {
			r.fr.WriteData(uint32(2*i+1), true, []byte("late"))
			if i%(useless/2) == 0 {
				r.lives(2*streams + 1 + uint32(2*i))
			}
		}
		r.lives(4*streams + 1)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestSmallDataOfAResetStream: a client that sends small messages may have sent a window of them before it learns that the handler
// has ended the call, many more frames than Limits.Useless. That is not its fault.
func TestSmallDataOfAResetStream(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, s, rec := rawServer(t, Config{Limits: Limits{Useless: 100}}, nil)
		r.resetEarly(rec, 1)
		for range 1000 {
			r.fr.WriteData(1, false, make([]byte, 5))
		}
		r.lives(3)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestDataFloodOfResetStreams: DATA of a stream that was reset so long ago that it is not remembered, and DATA without bytes of any
// stream that was reset, is bounded as other frames for closed streams are.
func TestDataFloodOfResetStreams(t *testing.T) {
	const streams = recentMax + 100
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for name, c := range map[string]struct {
			id   uint32
			data []byte
		}{
			"forgotten, one byte":        {1, []byte{1}},
			"forgotten, empty, the end":  {1, nil},
			"remembered, empty, the end": {2*streams - 1, nil},
		} {
			t.Run(name, func(t faultnet.OnKind) {
				r, s, rec := rawServer(t, Config{Limits: Limits{Useless: 1000}}, nil)
				r.resetEarly(rec, streams)
				if r.flood(1_000_000, func(int) error { return r.fr.WriteData(c.id, c.data == nil, c.data) }) == 1_000_000 {
					t.Error("the connection survived all of them")
				}
				r.wantEnd(s, EnhanceYourCalm)
			})
		}
	})
}

// TestHeadersOfForgottenStream: HEADERS for a stream that was reset so long ago that it is not remembered may be trailers that were
// under way (RFC 9113 section 5.1). They are decoded for the table, ignored and counted. For a stream that no reset one comes after,
// they are the connection's error.
func TestHeadersOfForgottenStream(t *testing.T) {
	const streams = recentMax + 100
	r, s, rec := rawServer(t, Config{Limits: Limits{Useless: 100}}, nil)
	r.resetEarly(rec, streams)
	r.headers(1, End, "x-late", "entered")
	r.headers(2*streams+1, More, append(slices.Clone(rawRequest), "x-late", "entered")...)
	r.fr.WriteData(2*streams+1, true, []byte("x"))
	r.wait("answer", func(s seen) bool { return s.id == 2*streams+1 && s.end })
	for range 200 {
		r.headers(1, End, "x-late", "entered")
	}
	r.wantEnd(s, EnhanceYourCalm)

	r, s, rec = rawServer(t, Config{}, nil)
	r.resetEarly(rec, streams)
	r.lives(2*streams + 1)
	r.headers(2*streams+1, End, "x-late", "entered")
	r.wantEnd(s, StreamClosed)
}
