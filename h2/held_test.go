package h2

import (
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// neverStarted is a server's handler that has no processor time: it starts no stream,
// except that it answers complete requests at once.
type neverStarted struct{ answered atomic.Int32 }

func (h *neverStarted) OnHeaders(s *Stream, _ *Header, e Ending) {
	if e == End {
		h.answered.Add(1)
		s.Post(&Out{Block: testResponse, Ending: End})
		s.Release()
	}
}
func (h *neverStarted) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (h *neverStarted) OnReset(s *Stream, _ error)                { s.Release() }

// neverEnded is a server's handler that starts every stream and runs on after its reset, so that
// Config.MaxStreams of them have all further streams refused.
type neverEnded struct{}

func (neverEnded) OnHeaders(s *Stream, _ *Header, _ Ending)  { s.Started() }
func (neverEnded) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (neverEnded) OnReset(*Stream, error)                    {}

// heldServer has f be the client of a server with default limits and handler h, in fake time.
func heldServer(t *testing.T, h Handler, f func(t *testing.T, s *Conn, r *raw)) {
	t.Helper()
	heldServerOf(t, h, Limits{}, f)
}

// heldServerOf is heldServer with limits of the test's.
func heldServerOf(t *testing.T, h Handler, limits Limits, f func(t *testing.T, s *Conn, r *raw)) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		s, err := NewServer(b, h, Config{Pool: tarntest.NewPool(t), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); s.Run() }()
		r := newRaw(t, a)
		go r.listen()
		io.WriteString(a, Preface)
		r.fr.WriteSettings()
		defer func() { a.Close(); <-run }()
		f(t, s, r)
	})
}

// TestBrownOutWithoutProcessorTime: a server that reads requests only together with
// their resets keeps the connection at 2,570 of them a second, also when it has not
// read for three seconds, and other requests on it are answered.
func TestBrownOutWithoutProcessorTime(t *testing.T) {
	h := new(neverStarted)
	heldServer(t, h, func(t *testing.T, s *Conn, r *raw) {
		const perSecond, stalled, seconds = 2570, 3, 60
		id := uint32(1)
		giveUp := func(n int) {
			for range n {
				if err := r.request(id, More); err != nil {
					t.Fatal(err)
				}
				if err := r.fr.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
					t.Fatal(err)
				}
				id += 2
			}
		}
		giveUp(stalled * perSecond)
		for i := range int32(10 * seconds) {
			giveUp(perSecond / 10)
			if err := r.request(id, End); err != nil {
				t.Fatal(err)
			}
			id += 2
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			if late := i + 1 - h.answered.Load(); late > 0 && i > 10*stalled {
				t.Fatalf("%d of %d healthy requests are not answered", late, i+1)
			}
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

// TestRapidResetHeldBack: streams that are reset before their handlers start are read no faster
// than 5,000 a second, so that an attack costs no more processor time than that, and end the
// connection when that has gone on for 20 seconds.
func TestRapidResetHeldBack(t *testing.T) {
	heldServer(t, new(neverStarted), func(t *testing.T, s *Conn, r *raw) {
		const seconds = 20
		const rate = givenUpRate + float64(time.Second/delayTime) // each hold lets one more pass
		burst := float64(s.cfg.Limits.Resets)
		begun := time.Now()
		go resetAtOnce(r)
		for range seconds - 1 {
			<-time.After(time.Second)
			synctest.Wait()
			passed := time.Since(begun).Seconds()
			if n, most := s.counters.resetsRecv.Load(), burst+rate*passed+100; float64(n) > most {
				t.Fatalf("%d resets were read in %v seconds, more than %v", n, passed, most)
			}
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
		}
		<-s.Done()
		if d := time.Since(begun); d > (seconds+1)*time.Second {
			t.Errorf("the connection ended after %v", d)
		}
		r.wantGoAway(EnhanceYourCalm)
	})
}

// TestRefusedResetHeldBack: while handlers of streams that were reset take all the room, further
// streams are read no faster than 5,000 a second, and end the connection when that has gone on for
// 20 milliseconds times Limits.Resets.
func TestRefusedResetHeldBack(t *testing.T) {
	const resets, lasts = 100, 2 * time.Second
	heldServerOf(t, neverEnded{}, Limits{Resets: resets, Useless: resets}, func(t *testing.T, s *Conn, r *raw) {
		begun := time.Now()
		go resetAtOnce(r)
		<-s.Done()
		passed := time.Since(begun)
		const rate = givenUpRate + float64(time.Second/delayTime) // each hold lets one more pass
		most := float64(s.cfg.MaxStreams+resets) + rate*passed.Seconds() + 100
		if n := s.counters.resetsRecv.Load(); float64(n) > most || passed < lasts || passed > 2*lasts {
			t.Errorf("%d resets were read in %v, more than %v in %v", n, passed, most, lasts)
		}
		var ce *ConnError
		if !errors.As(s.Err(), &ce) || ce.Reason != tooManyRefused {
			t.Errorf("the connection ended with %v", s.Err())
		}
		r.wantGoAway(EnhanceYourCalm)
	})
}

// TestRefusedWithinRightsAtDefaultLimits: handlers that run on after their streams were reset take
// all the room. The connection of a client that keeps to its limit survives any number of refusals
// at 2,570 a second, half of which cross a reset, although nothing else is sent on it.
func TestRefusedWithinRightsAtDefaultLimits(t *testing.T) {
	heldServer(t, neverEnded{}, func(t *testing.T, s *Conn, r *raw) {
		const perSecond, seconds = 2570, 5
		r.fr.WriteSettingsAck()
		id := uint32(1)
		room := 2 * s.cfg.MaxStreams // of handlers of streams that have ended
		for n := range room + seconds*perSecond {
			if err := r.request(id, More); err != nil {
				t.Fatal(n, err)
			}
			if n < room || n%2 == 0 {
				r.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			if id += 2; n%(perSecond/10) == 0 {
				<-time.After(time.Second / 10)
			}
		}
		synctest.Wait()
		if n := s.counters.refused.Load(); s.Err() != nil || n != seconds*perSecond {
			t.Errorf("%v, %d streams refused, not %d", s.Err(), n, seconds*perSecond)
		}
	})
}

// TestRefusedBeforeTheLimitIsKnown: a client may open more streams than it is permitted as long as it
// has not received the server's SETTINGS. Once it has acknowledged them its connection ends.
func TestRefusedBeforeTheLimitIsKnown(t *testing.T) {
	heldServer(t, neverEnded{}, func(t *testing.T, s *Conn, r *raw) {
		const streams = 5000
		id := uint32(1)
		for range streams {
			if err := r.request(id, More); err != nil {
				t.Fatal(err)
			}
			id += 2
		}
		<-time.After(time.Second)
		synctest.Wait()
		if n, want := s.counters.refused.Load(), uint64(streams-s.cfg.MaxStreams); s.Err() != nil || n != want {
			t.Fatalf("%v, %d streams refused, not %d", s.Err(), n, want)
		}
		begun := time.Now()
		r.fr.WriteSettingsAck()
		go func() {
			for ; r.request(id, More) == nil; id += 2 {
			}
		}()
		<-s.Done()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the connection ended after %v", d)
		}
		r.wantGoAway(EnhanceYourCalm)
	})
}

// TestRequestsAfterGoAwayHeldBack: streams beyond the last of a GOAWAY are ignored, and read no faster
// than frames that carry nothing.
func TestRequestsAfterGoAwayHeldBack(t *testing.T) {
	const burst = 100
	heldServerOf(t, neverEnded{}, Limits{Useless: burst}, func(t *testing.T, s *Conn, r *raw) {
		r.request(1, More)
		r.fr.WritePing(false, [8]byte{1})
		r.wait("the answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
		s.Shutdown("")
		r.fr.WritePing(true, goAwayPing)
		begun := time.Now()
		const seconds = 2
		for i := range burst + givenUpRate*seconds {
			if err := r.request(uint32(2*i+3), More); err != nil {
				t.Fatal(err)
			}
		}
		r.fr.WriteSettings()
		acks := 0
		r.wait("the answer to the second SETTINGS", func(s seen) bool {
			if s.typ == http2.FrameSettings && s.ack {
				acks++
			}
			return acks == 2
		})
		if d := time.Since(begun); d < (seconds-1)*time.Second {
			t.Errorf("all were read within %v", d)
		}
	})
}

// resetAtOnce opens streams and resets them until the connection ends.
func resetAtOnce(r *raw) {
	for id := uint32(1); r.request(id, More) == nil && r.fr.WriteRSTStream(id, http2.ErrCodeCancel) == nil; id += 2 {
	}
}
