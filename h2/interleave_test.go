package h2

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
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
		<-rec.gotSettings
		awaitWindow(t, c, message)
		other, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest}) // so that the message's stream is not the only one
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
			w, _ := c.ready.next()
			if w == nil || c.send.state != sending {
				return 0, false
			}
			return message - w.out.dataLen(), true
		}
		var before int
		eventually(t, "DATA that waits", func() (waits bool) {
			before, waits = framed()
			return waits
		}, stacks)
		const sockets = 2 << 20 // what the link holds at most
		if bound := int(l.ToServer.Passed()) + sockets + 2*(batchLimit+minFill); before > bound {
			t.Errorf("%d bytes queued, above %d", before, bound)
		}
		go c.Ping(ctx)
		small := make(chan *Stream, 1)
		go func() {
			s, err := c.Open(ctx, newCall(), &Out{Block: testRequest, Data: pool.Get(100), Ending: End})
			if err != nil {
				t.Error(err)
			}
			small <- s
		}()
		eventually(t, "a PING", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.pings.wait) > 0 && c.inUse == 3
		}, stacks)
		after, _ := framed()
		l.ToServer.Resume()
		r.wait("PING", func(s seen) bool { return s.typ == http2.FramePing && !s.ack })
		s := <-small
		if s == nil {
			return
		}
		defer s.Release()
		id := s.ID()
		r.wait("the small request", func(s seen) bool { return s.typ == http2.FrameData && s.id == id })
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		long, ping, data := 0, -1, -1
		r.mu.Lock()
		for _, s := range r.seen {
			switch {
			case s.typ == http2.FramePing && !s.ack:
				ping = long
			case s.typ == http2.FrameData && s.id == id:
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
	return min(c.peer.window, c.peer.conn)
}

// TestQueueBounds: with a peer that takes nothing, a batch of 128 KiB is queued behind the one under way, of long messages and of
// short ones, and then DATA and new streams wait.
func TestQueueBounds(t *testing.T) {
	const socket = 64 << 10    // what bufferedPipe takes
	const frameSlack = 1 << 10 // what headers of frames take of a batch
	client := func(t *testing.T, f func(c *Conn, pool *tarn.Pool)) {
		synctest.Test(t, func(t *testing.T) {
			a, b := bufferedPipe()
			pool := tarntest.NewPool(t)
			rec := newRecorder(t)
			c, err := NewClient(a, rec, Config{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			run := make(chan struct{})
			go func() { defer close(run); c.Run() }()
			fr := http2.NewFramer(b, b)
			if _, err := io.ReadFull(b, make([]byte, len(Preface))); err != nil {
				t.Fatal(err)
			}
			fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
			fr.WriteWindowUpdate(0, maxWindow-initialWindow)
			<-rec.gotSettings
			synctest.Wait()
			f(c, pool)
			a.Close()
			b.Close()
			<-run
		})
	}
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n, " streams"), func(t *testing.T) {
			client(t, func(conn *Conn, pool *tarn.Pool) {
				const message = 8 << 20
				var streams []*Stream
				for range n {
					s, err := conn.Open(context.Background(), newCall(), &Out{Block: testRequest})
					if err != nil {
						t.Fatal(err)
					}
					streams = append(streams, s)
				}
				ctx, cancel := context.WithCancel(context.Background())
				wrote := make(chan error)
				go func() { wrote <- streams[0].Write(ctx, &Out{Data: pool.Get(message), Ending: End}) }()
				synctest.Wait()
				conn.mu.Lock()
				framed := message - streams[0].wait.out.dataLen()
				conn.mu.Unlock()
				if most := socket + 2*(blockedLimit+minFill); framed < blockedLimit-frameSlack || framed > most {
					t.Errorf("%d bytes are queued or sent, not %d to %d", framed, blockedLimit-frameSlack, most)
				}
				cancel()
				<-wrote
				for _, s := range streams {
					s.Reset(Cancel)
					s.Release()
				}
			})
		})
	}
	t.Run("short", func(t *testing.T) {
		client(t, func(conn *Conn, pool *tarn.Pool) {
			s, err := conn.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			var written atomic.Int64
			wg.Go(func() {
				for s.Write(ctx, &Out{Data: pool.Get(16 << 10)}) == nil {
					written.Add(16 << 10)
				}
			})
			synctest.Wait()
			wg.Go(func() {
				long := []Field{{Name: "x", Value: strings.Repeat("x", 4<<10)}}
				for {
					o, err := conn.Open(ctx, newCall(), &Out{Block: testRequest, Fields: long})
					if err != nil {
						return
					}
					defer o.Release()
				}
			})
			synctest.Wait()
			if n, most := written.Load(), int64(socket+3*blockedLimit); n < blockedLimit || n > most {
				t.Errorf("%d bytes of short DATA are queued or sent, not %d to %d", n, blockedLimit, most)
			}
			conn.mu.Lock()
			if n, most := conn.send.queued(), blockedLimit+5<<10; n > most {
				t.Errorf("%d bytes are queued, more than %d", n, most)
			}
			conn.mu.Unlock()
			cancel()
			wg.Wait()
			s.Reset(Cancel)
			s.Release()
		})
	})
}

// TestFrameSizes: DATA frames are as long as the peer offers, 16 KiB unless it does. Those of an Open with a context have
// at most 256 KiB, until the peer is known to be near and fast; those of Post and of an Open without one have what the windows admit.
func TestFrameSizes(t *testing.T) {
	const message = fastAfter
	for name, send := range map[string]func(c *Conn) (*Stream, error){
		"Open": func(c *Conn) (*Stream, error) {
			return c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: c.cfg.Pool.Get(message), Ending: End})
		},
		"Open without a context": func(c *Conn) (*Stream, error) {
			return c.Open(nil, newCall(), &Out{Block: testRequest, Data: c.cfg.Pool.Get(message), Ending: End}) //lint:ignore SA1012 nil means: do not wait
		},
		"Post": func(c *Conn) (*Stream, error) {
			s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err == nil {
				err = s.Post(&Out{Data: c.cfg.Pool.Get(message), Ending: End})
			}
			return s, err
		},
	} {
		for offered, want := range map[int]int{0: minMaxFrame, minMaxFrame: minMaxFrame, 1 << 20: 1 << 20, message: message} {
			if name == "Open" {
				want = min(want, batchLimit)
			}
			settings := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 2 * message}}
			if offered > 0 {
				settings = append(settings, http2.Setting{ID: http2.SettingMaxFrameSize, Val: uint32(offered)})
			}
			r, c, _ := rawClient(t, Config{}, settings...)
			r.fr.WriteWindowUpdate(0, 2*message)
			awaitWindow(t, c, message)
			s, err := send(c)
			if err != nil {
				t.Fatal(err)
			}
			r.wait("the message", func(f seen) bool { return f.id == s.ID() && f.end })
			longest := 0
			r.mu.Lock()
			for _, f := range r.seen {
				if f.typ == http2.FrameData {
					longest = max(longest, f.n)
				}
			}
			r.mu.Unlock()
			if longest > want || longest < want/2 {
				t.Errorf("%s: the longest frame has %d bytes, not %d; %d are offered", name, longest, want, offered)
			}
			s.Release()
		}
	}
}
