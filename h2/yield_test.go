package h2

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// waking is a client's Handler that wakes one goroutine with the first DATA of a stream, and counts the DATA that
// it delivers before that goroutine has run.
type waking struct {
	*recorder
	woken, ran chan struct{}
	before     int
	all        chan struct{} // closed by the last DATA
}

func (h *waking) OnData(s *Stream, b tarn.Buffer, e Ending) {
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

// TestYieldToWoken sends many frames in one write, with one processor: a goroutine that the first of them wakes
// runs before the last is delivered.
func TestYieldToWoken(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const frames = 8 * clientYield
	a, b := tcpWiring(t)
	h := &waking{recorder: newRecorder(t), woken: make(chan struct{}), ran: make(chan struct{}), all: make(chan struct{})}
	c, err := NewClient(a, h, Config{Pool: tarntest.NewPool(t)})
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
	h.answer(b, frames)
	<-h.all
	if h.before > frames/2 {
		t.Errorf("%d of %d frames were delivered before a goroutine that the first woke ran", h.before, frames)
	}
}

// answer sends SETTINGS and a response of that many DATA frames in one write.
func (h *waking) answer(nc net.Conn, frames int) {
	var out pieces
	r := newRaw(h.t, nc)
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

// batching is a BatchHandler.
type batching struct{ *recorder }

func (batching) OnBatchEnd() {}

// TestYieldOnlyBeforeAFrame: yieldToWoken does not yield while no frame's header is buffered. Run then pauses, which
// sends what is queued, and waits for the network or begins a new run of frames. For a BatchHandler it does not yield.
func TestYieldOnlyBeforeAFrame(t *testing.T) {
	for _, of := range []struct {
		name  string
		side  side
		after int
	}{{"client", client, clientYield}, {"server", server, serverYield}} {
		t.Run(of.name, func(t *testing.T) {
			a, b := faultnet.Dialed(t) // plain TCP: a handshake would need both ends at once
			defer a.Close()
			defer b.Close()
			r := wire.NewReader(a, tarntest.NewPool(t))
			defer r.Release()
			c := &Conn{side: of.side, in: &reading{r: r, run: of.after}}
			for _, buffered := range []int{0, frameHeaderLen - 1} {
				b.Write(make([]byte, buffered))
				r.Peek(buffered)
				if c.yieldToWoken(); c.in.run != of.after {
					t.Errorf("with %d bytes buffered it yields", buffered)
				}
				r.Discard(buffered)
			}
			b.Write(make([]byte, frameHeaderLen))
			r.Peek(frameHeaderLen)
			c.in.run--
			if c.yieldToWoken(); c.in.run != of.after-1 {
				t.Errorf("it yields after %d frames", of.after-1)
			}
			c.in.run++
			c.batch = batching{}
			if c.yieldToWoken(); c.in.run != of.after {
				t.Error("it yields for a BatchHandler")
			}
			c.batch = nil
			if c.yieldToWoken(); c.in.run != 0 {
				t.Errorf("with a frame's header buffered it does not yield after %d frames", of.after)
			}
		})
	}
}

// replying is a client's Handler that wakes a goroutine with each piece of DATA.
type replying struct {
	*recorder
	woken chan struct{}
}

func (h *replying) OnData(_ *Stream, b tarn.Buffer, _ Ending) {
	b.Free()
	h.woken <- struct{}{}
}

// TestRepliesWaitForCallers: when a PING comes together with DATA, a client's answer to it is still queued when the
// goroutine runs that the DATA has woken, so that it can leave with that one's next request. The scheduler runs that goroutine
// first in most exchanges, not in all: one of a hundred is enough.
func TestRepliesWaitForCallers(t *testing.T) {
	faultnet.NeedsTCP(t, "other connections have a writer goroutine")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, b := tcpWiring(t)
	h := &replying{newRecorder(t), make(chan struct{}, 1)}
	c, err := NewClient(a, h, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	defer func() { b.Close(); <-run }()
	r := newRaw(t, b)
	readPreface(t, b)
	r.fr.WriteSettings()
	go r.listen()
	<-h.gotSettings
	for range gatherFrom {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
	}
	r.headers(1, More, ":status", "200")
	for range 100 {
		var out pieces
		fr := http2.NewFramer(&out, nil)
		fr.WriteData(1, false, []byte{1})
		fr.WritePing(false, [8]byte{})
		b.Write(out)
		<-h.woken
		c.mu.Lock()
		queued := c.queued()
		c.mu.Unlock()
		if queued > 0 {
			return
		}
	}
	t.Error("no answer to a PING waited")
}

// countedWrites counts the calls of Write.
type countedWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// TestCallersWriteTogether: frames of callers that are ready to run leave in one write with those of the first.
func TestCallersWriteTogether(t *testing.T) {
	const callers = 64
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, b := bufferedPipe()
	nc := &countedWrites{Conn: a}
	rec := newRecorder(t)
	c, err := NewClient(nc, rec, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	defer func() { b.Close(); <-run }()
	r := newRaw(t, b)
	readPreface(t, b)
	r.fr.WriteSettings()
	go r.listen()
	<-rec.gotSettings
	begin := make(chan struct{})
	var wrote sync.WaitGroup
	for range callers {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		wrote.Go(func() {
			<-begin
			if err := s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(100), Ending: End}); err != nil {
				t.Error(err)
			}
		})
	}
	pingPong(r, c)
	before := nc.n.Load()
	close(begin)
	wrote.Wait()
	eventually(t, "all frames", func() bool {
		return r.count(func(s seen) bool { return s.typ == http2.FrameData && s.end }) == callers
	}, stacks)
	if n := nc.n.Load() - before; n > callers/4 {
		t.Errorf("%d frames left in %d writes", callers, n)
	}
}
