package h2

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// isQuiet reports whether streams are open on c, and the poller waits for its input. A client that was idle when it opened them is so, too.
func (c *Conn) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rest != notResting && c.inUse > 0 && (c.polled != 0 || runtime.GOOS != "linux")
}

// awaitQuiet returns when all of cs are quiet.
func awaitQuiet(t testing.TB, cs ...*Conn) {
	t.Helper()
	for _, c := range cs {
		eventually(t, "a quiet connection", c.isQuiet, c.idleness)
	}
}

// quietPair is a pair with a long poll, which the server's handler answers once it may, and a stream whose request has not ended.
type quietPair struct {
	*pair
	poll, upload *Stream
	polled, sent *call         // of the client
	answer       chan struct{} // closed: the long poll is answered
	handling     *Stream       // the long poll on the server
	size         int           // of the answer
	body         []byte        // what has been sent on upload
	released     bool          // the client's streams
	ctx          context.Context
	cancel       context.CancelFunc
}

// newQuietPair returns when both sides are quiet.
func newQuietPair(t testing.TB, w wiring, ccfg, scfg Config) *quietPair {
	t.Helper()
	q := &quietPair{pair: newPair(t, w, ccfg, scfg), polled: newCall(), sent: newCall(), answer: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	handling := make(chan *Stream, 1)
	q.sh.mu.Lock()
	q.sh.serve = func(s *Stream, k *call) {
		if len(k.body) > 0 {
			echo(t, q.pool)(s, k)
			return
		}
		handling <- s
		select {
		case <-q.answer:
		case <-k.reset:
			return
		}
		o := &Out{Block: testResponse, TrailerBlock: testTrailer}
		if q.size > 0 {
			o.Data = q.pool.Copy(make([]byte, q.size))
		}
		s.Write(q.ctx, o)
	}
	q.sh.mu.Unlock()
	var err error
	if q.poll, err = q.c.Open(q.ctx, q.polled, &Out{Block: testRequest, Ending: End}); err != nil {
		t.Fatal(err)
	}
	if q.upload, err = q.c.Open(q.ctx, q.sent, &Out{Block: testRequest}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		q.cancel()
		q.pair.c.Close()
		q.pair.s.Close()
		<-q.polled.done
		<-q.sent.done
		if !q.released {
			q.poll.Release()
			q.upload.Release()
		}
	})
	q.handling = <-handling
	awaitQuiet(t, q.c, q.s)
	return q
}

// finish answers the long poll and ends the other request, whose responses it checks, and then both connections become idle.
func (q *quietPair) finish(t *testing.T) {
	t.Helper()
	close(q.answer)
	last := bytes.Repeat([]byte("x"), 1000)
	body := append(q.body, last...)
	if err := q.upload.Write(q.ctx, &Out{Data: q.pool.Copy(last), Ending: End}); err != nil {
		t.Fatal(err)
	}
	<-q.polled.done
	<-q.sent.done
	if q.polled.err != nil || len(q.polled.body) != q.size || q.sent.err != nil || !bytes.Equal(q.sent.body, body) {
		t.Errorf("the long poll: %v, %d bytes; the other: %v, %d bytes", q.polled.err, len(q.polled.body), q.sent.err, len(q.sent.body))
	}
	q.poll.Release()
	q.upload.Release()
	q.released = true
	awaitIdle(t, q.c, q.s)
	if q.c.Streams() != 0 || q.s.Streams() != 0 {
		t.Errorf("%d and %d streams are left", q.c.Streams(), q.s.Streams())
	}
}

// TestQuietConn: what happens on quiet connections happens as on others, and then their streams go on.
func TestQuietConn(t *testing.T) {
	for name, event := range map[string]func(t *testing.T, q *quietPair){
		"nothing": func(*testing.T, *quietPair) {},
		"DATA": func(t *testing.T, q *quietPair) {
			q.body = make([]byte, 100_000)
			if err := q.upload.Write(q.ctx, &Out{Data: q.pool.Copy(q.body)}); err != nil {
				t.Error(err)
			}
			awaitQuiet(t, q.c, q.s)
		},
		"another stream": func(t *testing.T, q *quietPair) {
			body := make([]byte, 100_000)
			if k := q.do(t, body); len(k.body) != len(body) {
				t.Errorf("%d bytes came back", len(k.body))
			}
		},
		"PING of the client": func(t *testing.T, q *quietPair) { ping(t, q.c) },
		"PING of the server": func(t *testing.T, q *quietPair) { ping(t, q.s) },
		"SETTINGS": func(t *testing.T, q *quietPair) {
			q.s.mu.Lock()
			putSetting(q.s.put(frame{typ: frameSettings, length: settingLen}), setWindow, 40_000)
			q.s.inflow.announce(now())
			q.s.send.flush(flushPromptly)
			q.s.mu.Unlock()
			eventually(t, "the window", func() bool {
				q.c.mu.Lock()
				defer q.c.mu.Unlock()
				return q.c.peer.window == 40_000
			}, q.c.idleness)
		},
		"1 MiB of the handler": func(_ *testing.T, q *quietPair) { q.size = 1 << 20 },
		"many PINGs": func(t *testing.T, q *quietPair) {
			for range 100 {
				if err := q.handling.Conn().ping(); err != nil {
					t.Error(err)
				}
			}
		},
		"quiet again": func(t *testing.T, q *quietPair) {
			for range 5 {
				ping(t, q.c)
				awaitQuiet(t, q.c, q.s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEachIdle(t, func(t *testing.T, w wiring) {
				q := newQuietPair(t, w, Config{}, Config{Policy: PingPolicy{MinTime: -1}})
				event(t, q)
				q.finish(t)
			})
		})
	}
}

func ping(t *testing.T, c *Conn) {
	t.Helper()
	if _, err := c.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

// ping sends a PING and does not wait.
func (c *Conn) ping() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Ping(ctx); err != nil && err != context.Canceled {
		return err
	}
	return nil
}

// TestQuietResets: a stream of a quiet connection is reset by either side.
func TestQuietResets(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		q := newQuietPair(t, w, Config{}, Config{})
		q.handling.Reset(InternalError)
		var se *StreamError
		if <-q.polled.done; !errors.As(q.polled.err, &se) || se.Code != InternalError {
			t.Errorf("the client's stream ended with %v", q.polled.err)
		}
		awaitQuiet(t, q.c)
		q.upload.Reset(Cancel)
		q.upload.Release()
		q.poll.Release()
		q.released = true
		close(q.sent.done) // its stream is not delivered to any more
		close(q.answer)
		awaitStreams(t, q.s, 0)
		awaitIdle(t, q.c, q.s)
	})
}

// TestQuietEnds: each way to end a connection works while it is quiet. Its streams end, too, unless the end waits for them.
func TestQuietEnds(t *testing.T) {
	ends := map[string]func(q *quietPair){
		"half-closed by the client": func(q *quietPair) { closeWrite(q.c.NetConn(), q.c.NetConn().(writeCloser)) },
		"half-closed by the server": func(q *quietPair) { closeWrite(q.s.NetConn(), q.s.NetConn().(writeCloser)) },
	}
	for name, end := range idleEnds {
		ends[name] = func(q *quietPair) { end(q.pair) }
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			forEachIdle(t, func(t *testing.T, w wiring) {
				q := newQuietPair(t, w, Config{}, Config{})
				if _, ok := q.c.NetConn().(writeCloser); !ok && name[0] == 'h' {
					t.Skip("its half cannot be closed")
				}
				end(q)
				close(q.answer)
				q.upload.Write(q.ctx, &Out{Data: q.pool.Copy(make([]byte, 10)), Ending: End}) // or it fails
				<-q.polled.done
				<-q.sent.done
				q.poll.Release()
				q.upload.Release()
				q.released = true
				<-q.c.Done()
				<-q.s.Done()
			})
		})
	}
}

// TestQuietGoAway: a client's quiet connection takes a GOAWAY, and its stream a response after it.
func TestQuietGoAway(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		q := newQuietPair(t, w, Config{}, Config{})
		q.s.Shutdown("enough")
		if g := <-q.ch.goAway; g.Last != maxStreamID || g.Debug != "enough" {
			t.Errorf("%+v", g)
		}
		if err := q.c.Unusable(); err == nil {
			t.Error("the client may open streams")
		}
		close(q.answer)
		<-q.polled.done
		if q.polled.err != nil {
			t.Error(q.polled.err)
		}
	})
}

// TestQuietKeepalive: keepalive's PINGs, on a quiet connection, are answered by a quiet one, or end it. (TestKeepaliveTable has the sides.)
func TestQuietKeepalive(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		keep := Keepalive{Time: 20 * time.Millisecond, Timeout: 20 * time.Second}
		q := newQuietPair(t, w, Config{Keepalive: keep}, Config{Keepalive: keep, Policy: PingPolicy{MinTime: -1}})
		for range 5 {
			for _, c := range []*Conn{q.c, q.s} {
				eventually(t, "an answer", func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.lifetime.asked != 0 && !c.lifetime.awaits()
				}, c.idleness)
				awaitQuiet(t, c)
			}
		}
		q.finish(t)
	})
	t.Run("no answer", func(t *testing.T) {
		faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
		c, end := mute(t, Config{Keepalive: Keepalive{Time: 200 * time.Millisecond, Timeout: 20 * time.Millisecond}})
		k := newCall()
		s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		awaitQuiet(t, c)
		var ce *ConnError
		if err := <-end; !errors.As(err, &ce) || ce.Fault != Peer {
			t.Errorf("ended with %v", err)
		}
		<-k.done
		s.Release()
	})
}

// TestQuietIdleTimeout: Config.IdleTimeout counts from when the last stream of a quiet connection has ended.
func TestQuietIdleTimeout(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	const timeout = 50 * time.Millisecond
	q := newQuietPair(t, tcpWiring, Config{}, Config{IdleTimeout: timeout, IdleDebug: "unused"})
	begun := time.Now()
	q.finish(t)
	q.runs.Wait()
	if d := time.Since(begun); d < timeout || q.serr != nil {
		t.Errorf("the connection ended after %v with %v", d, q.serr)
	}
}

// TestQuietTakesNoGoroutine: on Linux one goroutine waits for all quiet connections, over TLS as well, and a goroutine of the test handles
// each long poll.
func TestQuietTakesNoGoroutine(t *testing.T) {
	faultnet.NeedsTCP(t, "goroutines are counted, the relay's among them")
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a goroutine waits for each")
	}
	for name, w := range map[string]wiring{"tcp": tcpWiring, "tls": tlsWiring} {
		t.Run(name, func(t *testing.T) {
			const n = 10
			before := runtime.NumGoroutine()
			var all []*Conn
			for range n {
				q := newQuietPair(t, w, Config{}, Config{})
				all = append(all, q.c, q.s)
			}
			awaitQuiet(t, all...)
			most := before + n + 1
			eventually(t, "no more goroutines", func() bool { return runtime.NumGoroutine() <= most }, stacks)
			for _, c := range all {
				c.mu.Lock()
				if c.rest == quiet && c.send.w != nil {
					t.Error("what writes is kept")
				}
				c.mu.Unlock()
			}
		})
	}
}
