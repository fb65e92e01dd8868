package h2

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestWave sends a message on each of many open streams in one write. With one processor, the replies of the goroutines
// that they wake leave together, in most exchanges: one is enough. All replies arrive in every exchange.
func TestWave(t *testing.T) {
	faultnet.NeedsTCP(t, "other connections have a writer goroutine")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const streams, size, exchanges = 16, 100, 30 // together less than a window
	a, b := tcpWiring(t)
	h := &signalling{recorder: newRecorder(t), woken: map[uint32]chan struct{}{}}
	c, err := NewClient(a, h, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(streams) {
		h.woken[2*i+1] = make(chan struct{}, 1)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	defer func() { b.Close(); <-run }()
	r := newRaw(t, b)
	readPreface(t, b)
	r.fr.WriteSettings()
	go r.listen()
	<-h.gotSettings
	var callers sync.WaitGroup
	for range streams {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		r.headers(s.ID(), More, ":status", "200")
		callers.Go(func() {
			defer s.Release()
			for range exchanges {
				<-h.woken[s.ID()]
				if err := s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(size)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	most := 0 // bytes that one flush sent; under c.mu
	c.mu.Lock()
	flush := c.send.flush
	c.send.flush = func() {
		c.mu.Lock()
		most = max(most, c.queued())
		c.mu.Unlock()
		flush()
	}
	c.mu.Unlock()
	for n := range exchanges {
		var out pieces
		fr := http2.NewFramer(&out, nil)
		for i := range uint32(streams) {
			fr.WriteData(2*i+1, false, []byte{1})
		}
		b.Write(out)
		eventually(t, "all replies", func() bool {
			return r.count(func(s seen) bool { return s.typ == http2.FrameData }) == (n+1)*streams
		}, stacks)
	}
	callers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.send.w.CanTry() && most < streams/2*(frameHeaderLen+size) {
		t.Errorf("at most %d bytes left together", most)
	}
}

// signalling is a client's Handler that wakes the goroutine of a stream with each piece of DATA.
type signalling struct {
	*recorder
	woken map[uint32]chan struct{} // never changed
}

func (h *signalling) OnData(s *Stream, b tarn.Buffer, _ Ending) {
	b.Free()
	h.woken[s.ID()] <- struct{}{}
}

// TestWaveBegins: a wave has two messages, and its goroutine is started before the last frame that is buffered.
func TestWaveBegins(t *testing.T) {
	const size = 100
	for _, of := range []struct {
		name   string
		before int // messages of the same read
		behind int // buffered bytes after this one
		change func(*Conn)
		begins bool
	}{
		{name: "one message"},
		{name: "two messages", before: 1, begins: true},
		{name: "part of a frame's header behind them", before: 1, behind: frameHeaderLen - 1, begins: true},
		{name: "a frame behind them", before: 1, behind: frameHeaderLen},
		{name: "a goroutine sends soon", before: 1, change: func(c *Conn) { c.send.left = true }},
		{name: "a BatchHandler", before: 1, change: func(c *Conn) { c.batch = batching{} }},
		{name: "nothing has been sent yet", before: 1, change: func(c *Conn) { c.send.w = nil }},
	} {
		t.Run(of.name, func(t *testing.T) {
			faultnet.NeedsTCP(t, "on other connections there are no waves")
			a, b := faultnet.Dialed(t)
			defer a.Close()
			defer b.Close()
			r := wire.NewReader(a, tarntest.NewPool(t))
			defer r.Release()
			c := &Conn{in: &reading{r: r, wave: of.before}}
			begun := make(chan struct{})
			c.send.w, c.send.flush = wire.NewWriter(a, nil), func() { close(begun) }
			want := of.begins && c.send.w.CanTry() // not off Linux
			if of.change != nil {
				of.change(c)
			}
			left := c.send.left
			b.Write(make([]byte, size+of.behind))
			r.Peek(size + of.behind)
			c.beginWave(size)
			begins := c.send.left && !left
			if begins != want {
				t.Errorf("it begins: %v", begins)
			}
			if begins {
				<-begun
			}
		})
	}
}
