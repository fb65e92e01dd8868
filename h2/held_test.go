package h2

import (
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
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		s, err := NewServer(b, h, Config{Pool: tarntest.NewPool(t)})
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
		const rate = givenUpRate + float64(time.Second/holdTime) // each hold lets one more pass
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

// TestRefusedResetAtDefaultLimits: while handlers of streams that were reset take all the room, a
// stream that is refused and its reset each count like a frame that carries nothing.
func TestRefusedResetAtDefaultLimits(t *testing.T) {
	heldServer(t, neverEnded{}, func(t *testing.T, s *Conn, r *raw) {
		begun := time.Now()
		go resetAtOnce(r)
		<-s.Done()
		passed := time.Since(begun).Seconds()
		most := float64(s.cfg.MaxStreams) + (float64(s.cfg.Limits.Useless)+wasteRate*passed)/2 + 1
		if n := s.counters.resetsRecv.Load(); float64(n) > most || passed > 2 {
			t.Errorf("%d resets were read in %v seconds, more than %v in 2", n, passed, most)
		}
		r.wantGoAway(EnhanceYourCalm)
	})
}

// resetAtOnce opens streams and resets them until the connection ends.
func resetAtOnce(r *raw) {
	for id := uint32(1); r.request(id, More) == nil && r.fr.WriteRSTStream(id, http2.ErrCodeCancel) == nil; id += 2 {
	}
}
