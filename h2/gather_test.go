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
)

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

// signalling is a client's Handler that wakes the goroutine of a stream with each piece of DATA.
type signalling struct {
	*recorder
	woken map[uint32]chan struct{} // never changed
}

func (h *signalling) OnData(s *Stream, b tarn.Buffer, _ Ending) {
	b.Free()
	h.woken[s.ID()] <- struct{}{}
}

// TestRepliesLeaveTogether sends a message on each of many open streams in one write. With one processor, the replies of the goroutines
// that they wake leave together, in most exchanges: one is enough. All replies arrive in every exchange.
func TestRepliesLeaveTogether(t *testing.T) {
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
	most := 0 // bytes that sendReplies has sent together; under c.mu
	c.mu.Lock()
	send := c.send.replies
	c.send.replies = func() {
		c.mu.Lock()
		most = max(most, c.send.queued())
		c.mu.Unlock()
		send()
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

// TestRepliesAreGathered: a goroutine sends the replies when the last frame that has been read is a message, and one of another stream has come
// with it.
func TestRepliesAreGathered(t *testing.T) {
	const size = 100
	for _, of := range []struct {
		name    string
		streams []uint32 // of the messages
		behind  int      // buffered bytes after the last
		end     bool     // it ends its stream
		change  func(*Conn)
		gathers bool
	}{
		{name: "one message", streams: []uint32{1}},
		{name: "two of one stream", streams: []uint32{1, 1}},
		{name: "two", streams: []uint32{1, 3}, gathers: true},
		{name: "two, and a request's end", streams: []uint32{1, 3}, end: true},
		{name: "part of a frame's header behind them", streams: []uint32{1, 3}, behind: frameHeaderLen - 1, gathers: true},
		{name: "a frame behind them", streams: []uint32{1, 3}, behind: frameHeaderLen},
		{name: "part of a message", streams: []uint32{1, 3}, behind: -1},
		{name: "a BatchHandler", streams: []uint32{1, 3}, change: func(c *Conn) { c.batch = batching{} }},
		{name: "another sends", streams: []uint32{1, 3}, change: func(c *Conn) { c.send.state = sending }},
	} {
		t.Run(of.name, func(t *testing.T) {
			faultnet.NeedsTCP(t, "other connections have a writer goroutine")
			a, b := faultnet.Dialed(t)
			defer b.Close()
			c, err := NewServer(a, newRecorder(t), Config{Pool: tarntest.NewPool(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			defer c.send.dropQueued()
			c.makeReader()
			defer c.in.r.Release()
			for _, id := range []uint32{1, 3} {
				c.lastID = id
				c.newStream(id).gotHeaders = true
			}
			if of.change != nil {
				of.change(c)
			}
			before := c.send.state
			began := make(chan struct{})
			c.send.outgoing()
			c.send.replies = func() { close(began) }
			for i, id := range of.streams {
				f, behind := frame{typ: frameData, length: size, id: id}, 1000
				if i == len(of.streams)-1 {
					behind = of.behind
					if of.end {
						f.flags = flagEndStream
					}
				}
				n := size + behind
				b.Write(make([]byte, n-c.in.r.Buffered()))
				if _, err := c.in.r.Peek(n); err != nil {
					t.Fatal(err)
				}
				if _, err := c.acceptData(f, size, f.ending()); err != nil {
					t.Fatal(err)
				}
				if i < len(of.streams)-1 {
					c.in.r.Discard(c.in.r.Buffered())
				}
			}
			if got := c.send.state == replying && before != replying; got != (of.gathers && c.send.w.CanTry()) {
				t.Errorf("it gathers: %v", got)
			} else if got {
				<-began
			}
		})
	}
}
