package h2

import (
	"context"
	"net"
	"runtime"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// waking is a client's Handler that wakes one goroutine with the first DATA of a stream, and counts the DATA that it delivers before
// that goroutine has run.
type waking struct {
	*recorder
	woken, ran chan struct{}
	before     int
	all        chan struct{} // closed by the last DATA
}

func (h *waking) OnData(_ *Stream, b tarn.Buffer, e Ending) {
	b.Free()
	select {
	case <-h.ran:
	default:
		if h.before == 0 {
			close(h.woken)
		}
		h.before++
	}
	if e == End {
		close(h.all)
	}
}

// batching is a waking that is a BatchHandler.
type batching struct{ *waking }

func (batching) OnBatchEnd() {}

// TestWokenRunBetweenFrames sends many frames in one write, with one processor: a goroutine that the first of them wakes runs before
// half of them are delivered, unless the handler wakes at the end of a batch.
func TestWokenRunBetweenFrames(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const frames = 8 * clientYield
	for _, of := range []struct {
		name    string
		handler func(*waking) Handler
		yields  bool
		tries   int // Run is preempted at any time on a machine that is busy
	}{
		{"handler", func(h *waking) Handler { return h }, true, 1},
		{"batch handler", func(h *waking) Handler { return batching{h} }, false, 100},
	} {
		deliver := func(t *testing.T) (before int) {
			a, b := bufferedPipe()
			h := &waking{recorder: newRecorder(t), woken: make(chan struct{}), ran: make(chan struct{}), all: make(chan struct{})}
			c, err := NewClient(a, of.handler(h), Config{Pool: tarntest.NewPool(t)})
			if err != nil {
				t.Fatal(err)
			}
			run := make(chan struct{})
			go func() { defer close(run); c.Run() }()
			defer func() { b.Close(); <-run }()
			go func() { <-h.woken; close(h.ran) }()
			s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			answer(t, b, frames)
			<-h.all
			return h.before
		}
		t.Run(of.name, func(t *testing.T) {
			before := deliver(t)
			for try := 1; try < of.tries && (before <= frames/2) != of.yields; try++ {
				before = deliver(t)
			}
			if yields := before <= frames/2; yields != of.yields {
				t.Errorf("%d of %d frames were delivered before a goroutine that the first woke ran", before, frames)
			}
		})
	}
}

// answer sends SETTINGS and a response of that many DATA frames in one write.
func answer(t *testing.T, nc net.Conn, frames int) {
	var out pieces
	r := newRaw(t, nc)
	r.fr = http2.NewFramer(&out, nc)
	r.fr.WriteSettings()
	r.headers(1, More, ":status", "200")
	for i := range frames {
		r.fr.WriteData(1, i == frames-1, []byte{1})
	}
	nc.Write(out)
}

// pieces is what several Writes have written.
type pieces []byte

func (p *pieces) Write(b []byte) (int, error) { *p = append(*p, b...); return len(b), nil }
