package h2

import (
	"context"
	"io"
	"runtime"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestInterleaving: while a long message is being sent, a PING and a small request
// wait for at most two batches of it.
func TestInterleaving(t *testing.T) {
	forEachKind(t, func(t *testing.T, k faultnet.Kind) {
		const message = 16 << 20
		l := faultnet.New(t, k)
		pool := tarntest.NewPool(t)
		rec := newRecorder(t)
		c, err := NewClient(l.Client, rec, Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); c.Run() }()
		defer func() { l.Break(faultnet.RST); <-run }()
		r := newRaw(t, l.Server)
		if _, err := io.ReadFull(l.Server, make([]byte, len(Preface))); err != nil {
			t.Fatal(err)
		}
		go func() {
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
			r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		}()
		go r.listen()
		<-rec.settled
		for c.window() < message {
			runtime.Gosched()
		}
		other, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest}) // the connection is not the message's alone
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
		l.ToServer.Stall()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wrote := make(chan error, 1)
		go func() {
			s, err := c.Open(ctx, newCall(), &Out{Block: testRequest, Data: pool.Get(message), Ending: End})
			if err == nil {
				defer s.Release()
			}
			wrote <- err
		}()
		framed := func() (n int, waits bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			w := c.send.ready.long.first
			if w == nil || c.send.state != sending {
				return 0, false
			}
			return message - w.out.left(), true
		}
		var before int
		for waits := false; !waits; runtime.Gosched() {
			before, waits = framed()
		}
		const sockets = 2 << 20 // what the link holds at most
		if bound := int(l.ToServer.Passed()) + sockets + 2*(batchLimit+minFill); before > bound {
			t.Errorf("%d bytes queued, above %d", before, bound)
		}
		go c.Ping(ctx)
		small, err := c.Open(ctx, newCall(), &Out{Block: testRequest, Data: pool.Get(100), Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		defer small.Release()
		for pinged := false; !pinged; runtime.Gosched() {
			c.mu.Lock()
			pinged = len(c.pings.wait) > 0
			c.mu.Unlock()
		}
		after, _ := framed()
		l.ToServer.Resume()
		r.wait("PING", func(s seen) bool { return s.typ == http2.FramePing && !s.ack })
		r.wait("the small request", func(s seen) bool { return s.typ == http2.FrameData && s.id == small.ID() })
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		long, ping, data := 0, -1, -1
		r.mu.Lock()
		for _, s := range r.seen {
			switch {
			case s.typ == http2.FramePing && !s.ack:
				ping = long
			case s.typ == http2.FrameData && s.id == small.ID():
				data = long
			case s.typ == http2.FrameData:
				long += s.n
			}
		}
		r.mu.Unlock()
		if bound := max(before, after) + batchLimit; ping > bound || data > bound {
			t.Errorf("%d bytes of the message were queued; the PING came after %d bytes, the small request after %d", before, ping, data)
		}
	})
}

func (c *Conn) window() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.send.window, c.send.conn)
}
