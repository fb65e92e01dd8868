package h2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// unhurried is a client's Handler that takes a second for each DATA, and notes what ReadAt returns, in seconds since it began.
type unhurried struct {
	*recorder
	began time.Time
	at    []time.Duration
	all   chan struct{} // closed by the last DATA
}

func (h *unhurried) OnData(s *Stream, b tarn.Buffer, e Ending) {
	b.Free()
	h.at = append(h.at, s.Conn().ReadAt().Sub(h.began))
	<-time.After(time.Second)
	if e == End {
		close(h.all)
	}
}

// TestReadAt: frames that came together have the time of one of the 64 before them, and those that came later have their own.
func TestReadAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		h := &unhurried{recorder: newRecorder(t), began: time.Now(), all: make(chan struct{})}
		c, err := NewClient(a, h, Config{Pool: tarntest.NewPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); c.Run() }()
		defer func() { b.Close(); <-run }()
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		const together = 200
		var out pieces
		r := newRaw(t, b)
		r.fr = http2.NewFramer(&out, b)
		r.fr.WriteSettings()
		r.headers(1, More, ":status", "200")
		for range together {
			r.fr.WriteData(1, false, []byte{1})
		}
		b.Write(out)
		<-time.After(time.Hour)
		r.fr = http2.NewFramer(b, b)
		r.fr.WriteData(1, true, []byte{1})
		<-h.all
		times := make(map[time.Duration]bool)
		for i, at := range h.at[:together] {
			times[at] = true
			if age := time.Duration(i)*time.Second - at; age < 0 || age > 64*time.Second {
				t.Fatalf("DATA %d, which is delivered a second after the one before: read at %v", i, at)
			}
		}
		if len(times) > together/16 {
			t.Errorf("%d times for %d frames that came together", len(times), together)
		}
		if at := h.at[together]; at != time.Hour {
			t.Errorf("the DATA that came later: read at %v", at)
		}
	})
}
