package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
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

// TestQuietBecomesIdle: a quiet connection becomes idle once its last stream has ended, although the peer sends nothing.
func TestQuietBecomesIdle(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for name, unpoll := range map[string]func(nc net.Conn) net.Conn{
		"polled":       func(nc net.Conn) net.Conn { return nc },
		"not pollable": func(nc net.Conn) net.Conn { return unpolled{nc.(*net.TCPConn)} },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpWiring(t)
			pool := tarntest.NewPool(t)
			cfg := Config{Pool: pool, idleAfter: time.Millisecond, poller: quickPoller()}
			rec := newRecorder(t)
			rec.serve = echo(t, pool)
			s, err := NewServer(unpoll(b), rec, cfg)
			if err != nil {
				t.Fatal(err)
			}
			s.AllowIdle()
			ended := make(chan error, 1)
			s.Start(func(err error) { ended <- err })
			r := newRaw(t, a)
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			r.fr.WriteSettingsAck()
			go r.listen()
			answer := make(chan struct{})
			rec.mu.Lock()
			rec.serve = func(s *Stream, _ *call) {
				<-answer
				s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer})
			}
			rec.mu.Unlock()
			r.request(1, End)
			eventually(t, "a quiet connection", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.rest == quiet
			}, s.idleness)
			close(answer)
			r.wait("the response", func(s seen) bool { return s.id == 1 && s.end })
			awaitIdle(t, s)
			s.Close()
			a.Close()
			<-ended
			rec.calls.Wait()
		})
	}
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

// resting is a connection that counts how often reading it is stopped: then its read deadline is lifted.
type resting struct {
	net.Conn
	rests chan time.Time
}

func (r resting) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		r.rests <- time.Now()
	}
	return r.Conn.SetReadDeadline(t)
}

// TestQuietAfterSilence: a connection with a stream becomes quiet when nothing has come for 1.5 to 2.5 seconds, and not while something comes each
// second, in fake time.
func TestQuietAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		nc := resting{b, make(chan time.Time, 100)}
		rec := newRecorder(t)
		rec.serve = func(*Stream, *call) {}
		s, err := NewServer(nc, rec, Config{Pool: tarntest.NewPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		s.mayIdle = true
		ended := make(chan error, 1)
		s.Start(func(err error) { ended <- err })
		r := newRaw(t, a)
		io.WriteString(a, Preface)
		r.fr.WriteSettings()
		r.fr.WriteSettingsAck()
		go r.listen()
		r.request(1, More)
		var last time.Time
		for _, every := range []time.Duration{100 * time.Millisecond, time.Second} {
			for range 20 {
				r.fr.WriteData(1, false, []byte("x"))
				last = time.Now()
				<-time.After(every)
			}
		}
		if n := len(nc.rests); n > 0 {
			t.Errorf("reading was stopped %d times", n)
		}
		if d := (<-nc.rests).Sub(last); d < 3*idleAfter || d > 5*idleAfter {
			t.Errorf("reading was stopped %v after the last frame", d)
		}
		s.Close()
		a.Close()
		<-ended
	})
}

// returning is a handler that returns what comes on a stream, as it comes.
type returning struct{ pool *tarn.Pool }

func (h returning) OnHeaders(s *Stream, _ *Header, e Ending) {
	s.Started()
	if s.Post(&Out{Block: testResponse}); e == End {
		h.end(s)
	}
}

func (h returning) OnData(s *Stream, b tarn.Buffer, e Ending) {
	n := b.Len()
	s.Post(&Out{Data: b})
	if s.Consumed(n); e == End {
		h.end(s)
	}
}

func (returning) end(s *Stream) {
	s.Post(&Out{TrailerBlock: testTrailer})
	s.Release()
}

func (returning) OnReset(s *Stream, _ error) { s.Release() }

// taking is the client's side of a stream to returning: it counts what comes.
type taking struct {
	mu   sync.Mutex
	cond sync.Cond
	n    int
	over bool
	err  error
}

func newTaking() *taking {
	k := new(taking)
	k.cond.L = &k.mu
	return k
}

// await returns when n bytes have come, or for n < 0 the end, or why the stream has ended before.
func (k *taking) await(n int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.over && (n < 0 || k.n < n) {
		k.cond.Wait()
	}
	if k.err == nil && k.n < n {
		return fmt.Errorf("%d bytes instead of %d", k.n, n)
	}
	return k.err
}

func (k *taking) note(n int, over Ending, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n += n
	k.over = k.over || over == End
	k.err = err
	k.cond.Broadcast()
}

type takingHandler struct{}

func (takingHandler) OnHeaders(s *Stream, _ *Header, e Ending) { s.Value.(*taking).note(0, e, nil) }
func (takingHandler) OnReset(s *Stream, err error)             { s.Value.(*taking).note(0, End, err) }
func (takingHandler) OnData(s *Stream, b tarn.Buffer, e Ending) {
	n := b.Len()
	s.Consumed(n)
	b.Free()
	s.Value.(*taking).note(n, e, nil)
}

// TestQuietStress: streams that talk and are silent at random, on connections that rest whenever nothing comes for a few tens of
// microseconds, lose nothing, and both sides become idle after them.
func TestQuietStress(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		const callers, streams, steps = 3, 15, 15
		pool := tarntest.NewPool(t)
		cfg := Config{Pool: pool, idleAfter: 20 * time.Microsecond, poller: quickPoller(), Policy: PingPolicy{MinTime: -1}, Limits: Limits{Useless: 1 << 20}}
		a, b := w(t)
		c, err := NewClient(a, takingHandler{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewServer(b, returning{pool}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := a.(wrapped); ok {
			c.AllowIdle()
			s.AllowIdle()
		}
		var runs, wg sync.WaitGroup
		runs.Add(2)
		over := func(error) { runs.Done() }
		c.Start(over)
		s.Start(over)
		for i := range callers {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			wg.Go(func() {
				for range streams {
					if err := talk(c, pool, rnd, steps); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		awaitIdle(t, c, s)
		c.Close()
		runs.Wait()
	})
}

// talk opens a stream, and sends on it, waits for what returns, and is silent, in random order.
func talk(c *Conn, pool *tarn.Pool, rnd *rand.Rand, steps int) error {
	ctx := context.Background()
	k := newTaking()
	s, err := c.Open(ctx, k, &Out{Block: testRequest})
	if err != nil {
		return err
	}
	defer s.Release()
	sent := 0
	for range rnd.IntN(steps) {
		switch rnd.IntN(8) {
		case 0:
			s.Reset(Cancel)
			return nil
		case 1:
			if _, err := c.Ping(ctx); err != nil {
				return err
			}
		case 2, 3, 4:
			rests := func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.rest != notResting
			}
			for i := rnd.IntN(3000); i > 0 && !rests(); i-- {
				runtime.Gosched()
			}
		default:
			n := 1 + rnd.IntN(1<<rnd.IntN(15))
			if err := s.Write(ctx, &Out{Data: pool.Copy(make([]byte, n))}); err != nil {
				return err
			}
			if sent += n; rnd.IntN(2) == 0 {
				continue
			}
			if err := k.await(sent); err != nil {
				return err
			}
		}
	}
	if err := s.Write(ctx, &Out{Ending: End}); err != nil {
		return err
	}
	if err := k.await(-1); err != nil || k.n != sent {
		return fmt.Errorf("%d bytes of %d came back: %v", k.n, sent, err)
	}
	return nil
}

// TestQuietWrite: a Write that waits for a window does not keep its connection from being quiet, and ends with its context.
func TestQuietWrite(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	c, end := mute(t, Config{Pool: tarntest.NewPool(t)})
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Write(ctx, &Out{Data: tarn.Shared().Copy(make([]byte, 1<<20))}) }()
	eventually(t, "a Write that waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		w := c.streams.get(s.ID()).wait
		return w != nil && w.active
	}, c.idleness)
	awaitQuiet(t, c)
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	s.Release()
	awaitIdle(t, c)
	c.Close()
	<-end
}

// TestIdleCancelledCall: a client that opens a stream while it is idle, and resets it before anything has come, is idle again.
func TestIdleCancelledCall(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	c, end := mute(t, Config{})
	for range 3 {
		awaitPolled(t, c)
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
		awaitIdle(t, c)
	}
	c.Close()
	<-end
}

// TestQuietFrames: frames of a peer that concern no stream, or one that has ended, wake a quiet connection, which acts on them.
func TestQuietFrames(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	for name, send := range map[string]func(r *raw) func(seen) bool{
		"SETTINGS": func(r *raw) func(seen) bool {
			r.fr.WriteSettings()
			return func(s seen) bool { return s.typ == http2.FrameSettings && s.ack }
		},
		"PING": func(r *raw) func(seen) bool {
			r.fr.WritePing(false, [8]byte{})
			return func(s seen) bool { return s.typ == http2.FramePing && s.ack }
		},
		"RST_STREAM of the stream": func(r *raw) func(seen) bool {
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
			r.request(3, More)
			r.fr.WriteData(3, true, []byte("x"))
			return func(s seen) bool { return s.id == 3 && s.end }
		},
		"part of a frame": func(r *raw) func(seen) bool {
			r.nc.Write([]byte{0, 0, 8, byte(framePing)})
			r.nc.Write([]byte{0, 0, 0, 0, 0})
			r.nc.Write(make([]byte, 8))
			return func(s seen) bool { return s.typ == http2.FramePing && s.ack }
		},
		"a broken frame": func(r *raw) func(seen) bool {
			r.fr.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7))
			return func(s seen) bool { return s.typ == http2.FrameGoAway && s.code == http2.ErrCodeFrameSize }
		},
		"WINDOW_UPDATE of nothing": func(r *raw) func(seen) bool {
			r.fr.WriteWindowUpdate(1, 0)
			return func(s seen) bool { return s.typ == http2.FrameRSTStream && s.id == 1 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpWiring(t)
			pool := tarntest.NewPool(t)
			rec := newRecorder(t)
			rec.serve = echo(t, pool)
			s, err := NewServer(b, rec, Config{Pool: pool, idleAfter: 100 * time.Microsecond, poller: quickPoller()})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			s.Start(func(err error) { ended <- err })
			r := newRaw(t, a)
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			r.fr.WriteSettingsAck()
			go r.listen()
			r.request(1, More)
			awaitQuiet(t, s)
			r.wait("effect", send(r))
			s.Close()
			a.Close()
			<-ended
			rec.calls.Wait()
		})
	}
}
