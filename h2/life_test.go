package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestGoAwayReceived: streams up to the last go on, the others come back as never
// processed, and no stream can be opened.
func TestGoAwayReceived(t *testing.T) {
	r, c, rec := rawClient(t, Config{})
	var calls []*call
	var streams []*Stream
	for range 3 {
		k := newCall()
		s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		calls, streams = append(calls, k), append(streams, s)
	}
	r.fr.WriteGoAway(3, http2.ErrCodeNo, []byte("bye"))
	<-calls[2].done
	var ga *GoAwayError
	if !errors.As(calls[2].err, &ga) || ga.Last != 3 || ga.Debug != "bye" {
		t.Fatalf("stream 5 ended with %v", calls[2].err)
	}
	if got := <-rec.goAway; got != ga {
		t.Error("OnGoAway got other arguments")
	}
	if _, err := c.Open(context.Background(), nil, &Out{Block: testRequest}); !errors.As(err, &ga) {
		t.Errorf("Open: %v", err)
	}
	r.headers(1, End, ":status", "200")
	r.headers(3, End, ":status", "204")
	for i, k := range calls[:2] {
		if <-k.done; k.err != nil {
			t.Errorf("stream %d: %v", 2*i+1, k.err)
		}
	}
	for _, s := range streams {
		s.Release()
	}
	<-c.Done()
	if c.Err() != ErrClosed {
		t.Error(c.Err())
	}
}

// TestGoAwayOfAClient: a server goes on serving the streams that are open.
func TestGoAwayOfAClient(t *testing.T) {
	r, _, _ := rawServer(t, Config{}, nil)
	r.request(1, More)
	r.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
	r.fr.WriteData(1, true, []byte("still here"))
	r.wait("answer", func(s seen) bool { return s.id == 1 && s.typ == http2.FrameHeaders && s.end })
}

// TestShutdownServer: two GOAWAYs, a round trip apart; what came between is served.
func TestShutdownServer(t *testing.T) {
	gate := make(chan struct{})
	r, s, _ := rawServer(t, Config{}, func(s *Stream, k *call) {
		<-gate
		s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer})
	})
	r.request(1, End)
	r.fr.WritePing(true, goAwayPing) // which was not sent
	r.fr.WritePing(false, [8]byte{9})
	r.wait("pong", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	s.Shutdown("moved")
	g, _ := r.wait("GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway })
	if g.id != maxStreamID || g.code != http2.ErrCodeNo || g.text != "moved" {
		t.Fatalf("first GOAWAY %+v", g)
	}
	r.request(3, End) // on its way when the first GOAWAY was sent
	r.fr.WritePing(true, goAwayPing)
	g, _ = r.wait("second GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway && s.id != maxStreamID })
	if g.id != 3 || g.text != "moved" {
		t.Fatalf("second GOAWAY %+v", g)
	}
	r.request(5, End) // too late
	close(gate)
	for _, id := range []uint32{1, 3} {
		r.wait("answer", func(s seen) bool { return s.id == id && s.typ == http2.FrameHeaders && s.end })
	}
	<-s.Done()
	if n := r.count(func(s seen) bool { return s.id == 5 && s.typ != http2.FrameGoAway }); n > 0 {
		t.Error("a stream beyond GOAWAY was served")
	}
}

// TestShutdownServesWhatCameWithTheAnswer: requests that arrive in one piece behind the answer to the PING between the
// GOAWAYs are served. Clients send that answer ahead of requests that they made before, and some fail a call that the
// second GOAWAY refuses.
func TestShutdownServesWhatCameWithTheAnswer(t *testing.T) {
	gate := make(chan struct{})
	a, b := bufferedPipe() // what is written in one piece arrives in one
	r, s, _ := rawServerOn(t, a, b, Config{}, func(s *Stream, k *call) {
		<-gate
		s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer})
	})
	r.request(1, End)
	r.fr.WritePing(false, [8]byte{9})
	r.wait("pong", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	s.Shutdown("")
	r.wait("GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway })
	var out bytes.Buffer
	all := http2.NewFramer(&out, nil)
	all.WritePing(true, goAwayPing)
	for _, id := range []uint32{3, 5} {
		all.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block(rawRequest...), EndHeaders: true})
	}
	begun := out.Len() + 4 // of the next frame's header
	for _, id := range []uint32{3, 5} {
		all.WriteData(id, true, nil)
	}
	r.nc.Write(out.Next(begun))
	g, _ := r.wait("second GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway && s.id != maxStreamID })
	if g.id != 5 {
		t.Errorf("second GOAWAY %+v", g)
	}
	r.nc.Write(out.Bytes())
	close(gate)
	for _, id := range []uint32{1, 3, 5} {
		r.wait("answer", func(s seen) bool { return s.id == id && s.typ == http2.FrameHeaders && s.end })
	}
}

// TestShutdownPair: both sides of this package, with calls under way.
func TestShutdownPair(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{})
		p.do(t, []byte("one"))
		p.s.Shutdown("")
		p.runs.Wait()
		if p.serr != nil || p.cerr != nil {
			t.Errorf("server %v, client %v", p.serr, p.cerr)
		}
	})
}

// TestShutdownOfAClosedConnection: when a client without streams has sent GOAWAY and closed its side, the
// connection has ended in order, also when the server learns of it by a write that fails.
func TestShutdownOfAClosedConnection(t *testing.T) {
	a, b := bufferedPipe()
	s, err := NewServer(b, newRecorder(t), Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	r := newRaw(t, a)
	go r.listen()
	a.Write([]byte(Preface))
	r.fr.WriteSettings()
	r.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
	r.fr.WritePing(false, [8]byte{1})
	r.wait("pong", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	b.(*memConn).w.close()
	s.Shutdown("")
	a.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestConnectionLost(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{})
		gate := make(chan struct{})
		p.sh.serve = func(s *Stream, k *call) { <-gate }
		k := newCall()
		s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		p.s.NetConn().Close()
		<-k.done
		if k.err == nil {
			t.Error("no error")
		}
		if _, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: p.pool.Get(10)}); err == nil {
			t.Error("Open succeeded on a lost connection")
		}
		if err := s.Write(context.Background(), &Out{Data: p.pool.Get(10)}); err == nil {
			t.Error("Write succeeded on a lost connection")
		}
		s.Release()
		close(gate)
	})
}

// TestAbort: the code and the debug data reach the peer.
func TestAbort(t *testing.T) {
	r, s, _ := rawServer(t, Config{}, nil)
	r.lives(1)
	s.Abort(EnhanceYourCalm, "enough")
	g, _ := r.wait("GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway })
	if g.text != "enough" || g.code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("%+v", g)
	}
	r.nc.Close()
	<-s.Done()
	var ce *ConnError
	if !errors.As(s.Err(), &ce) || ce.Fault != Local {
		t.Error(s.Err())
	}
}

// TestGoAwayArrives: a connection that is ended because of a frame is not closed before its GOAWAY is sent, however much
// comes behind that frame. In fake time, the machine's load cannot exceed what closing may take.
func TestGoAwayArrives(t *testing.T) {
	for range 8 { // a matter of scheduling
		heldServer(t, neverEnded{}, func(t *testing.T, s *Conn, r *raw) {
			var b bytes.Buffer
			fr := http2.NewFramer(&b, nil)
			fr.AllowIllegalWrites = true
			fr.WriteData(1, false, []byte("on an idle stream"))
			for b.Len() < 5<<18 {
				fr.WriteData(3, false, make([]byte, 16<<10))
			}
			r.nc.Write(b.Bytes()) // until the server closes
			r.wantGoAway(ProtocolError)
		})
	}
}

// silent is a peer that reads and never answers.
func silent(nc net.Conn) { io.Copy(io.Discard, nc) }

func TestKeepalive(t *testing.T) {
	for _, c := range []struct {
		name    string
		without Permission
		open    bool
		dies    bool
	}{{"idle, denied", Deny, false, false}, {"idle, permitted", Permit, false, true}, {"with a call", Deny, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				rec := newRecorder(t)
				pool := tarntest.NewPool(t)
				conn, err := NewClient(a, rec, Config{Pool: pool,
					Keepalive: Keepalive{Time: time.Minute, Timeout: 10 * time.Second, WithoutStream: c.without}})
				if err != nil {
					t.Fatal(err)
				}
				go silent(b)
				run := make(chan error, 1)
				go func() { run <- conn.Run() }()
				k := newCall()
				var s *Stream
				if c.open {
					if s, err = conn.Open(context.Background(), k, &Out{Block: testRequest}); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(time.Hour) // the bubble's clock
				select {
				case err := <-run:
					if !c.dies || !strings.Contains(err.Error(), "keepalive") {
						t.Errorf("ended with %v", err)
					}
				default:
					if c.dies {
						t.Error("still there")
					}
					conn.Close()
					<-run
				}
				if s != nil {
					<-k.done
					s.Release()
				}
				b.Close()
				synctest.Wait()
			})
		})
	}
}

// TestKeepaliveAnswered: a peer that answers is kept.
func TestKeepaliveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := Keepalive{Time: 10 * time.Second, Timeout: time.Second, WithoutStream: Permit}
		p := newPair(t, memoryWiring, Config{Keepalive: k}, Config{Policy: PingPolicy{MinTime: time.Second, WithoutStream: Permit}})
		<-time.After(time.Hour)
		p.do(t, []byte("still there"))
	})
}

// lander receives a message of 1 MB into separate memory.
type lander struct {
	*recorder
	dst  []byte
	got  int
	want int
	full chan struct{}
}

func (l *lander) Land(s *Stream, n int) []byte {
	if l.want == 0 {
		l.want = 1_000_000
		l.dst = make([]byte, l.want)
	}
	return l.dst[l.got:min(l.got+100_000, l.want)]
}

func (l *lander) Landed(s *Stream, n int, e Ending) {
	l.got += n
	s.Consumed(n)
	if e == End {
		close(l.full)
	}
}

func (l *lander) OnData(s *Stream, b tarn.Buffer, e Ending) {
	if b.Len() > 0 {
		l.t.Error("DATA outside the landing")
	}
	b.Free()
	if e == End {
		close(l.full)
	}
}

// TestLander: a message lands in the memory the handler names.
func TestLander(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		pool := tarntest.NewPool(t)
		a, b := w(t)
		l := &lander{recorder: newRecorder(t), full: make(chan struct{})}
		srv, err := NewServer(b, l, Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		cl, err := NewClient(a, newRecorder(t), Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{}, 2)
		go func() { srv.Run(); done <- struct{}{} }()
		go func() { cl.Run(); done <- struct{}{} }()
		data := make([]byte, 1_000_000)
		for i := range data {
			data[i] = byte(i * i >> 3)
		}
		s, err := cl.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: pool.Copy(data), Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		<-l.full
		if string(l.dst) != string(data) {
			t.Error("the message in memory is not the one that was sent")
		}
		s.Release()
		cl.Close()
		srv.Close()
		<-done
		<-done
	})
}

// keepsStreams is a server's handler that hands the test its streams.
type keepsStreams chan *Stream

func (h keepsStreams) OnHeaders(s *Stream, _ *Header, _ Ending)  { h <- s }
func (h keepsStreams) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (h keepsStreams) OnReset(*Stream, error)                    {}

// TestCloseResetsNothing: streams that their users give up after Close, while it is still
// being sent, are not reset: the peer learns that the connection ended, not that its calls
// were cancelled.
func TestCloseResetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		h := make(keepsStreams, 2)
		s, err := NewServer(b, h, Config{Pool: tarntest.NewPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); s.Run() }()
		r := newRaw(t, a)
		io.WriteString(a, Preface)
		r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		r.request(1, More)
		r.request(3, More)
		first, second := <-h, <-h
		synctest.Wait()
		if err := first.Write(context.Background(), &Out{Block: testResponse, Data: s.cfg.Pool.Get(blockedLimit)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the pipe is full
		s.Close()
		second.Reset(Cancel)
		first.Release()
		second.Release()
		r.fr.WriteData(1, false, []byte("x")) // on its way
		r.fr.WriteData(3, true, nil)
		synctest.Wait()
		go r.listen()
		synctest.Wait()
		if n := r.count(func(f seen) bool { return f.typ == http2.FrameRSTStream }); n != 0 {
			t.Errorf("%d streams were reset", n)
		}
		r.wantGoAway(NoError)
		a.Close()
		<-run
	})
}

// TestOpenThatWaitsWhenAWriteFails: an Open that waits for a stream fails as soon as nothing can be written any more, as one that begins
// then does, although the connection is read on.
func TestOpenThatWaitsWhenAWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		c, err := NewClient(a, newRecorder(t), Config{Pool: tarntest.NewPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan error, 1)
		go func() { run <- c.Run() }()
		http2.NewFramer(b, b).WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		synctest.Wait()
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
			waiting <- err
		}()
		synctest.Wait()
		b.(*memConn).r.close()
		begun := time.Now()
		if err := s.Write(context.Background(), &Out{Data: tarntest.NewPool(t).Copy([]byte("x"))}); err != nil {
			t.Fatal(err)
		}
		err = <-waiting
		if d := time.Since(begun); err == nil || d > 0 {
			t.Errorf("the Open that waited returned %v after %v", err, d)
		}
		if _, err2 := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End}); err2 != err {
			t.Errorf("an Open that began then returned %v, and the one that waited %v", err2, err)
		}
		<-run
		s.Release()
		b.Close()
	})
}

// TestReadsOnWhenAWriteFails: a connection on which nothing can be written is read for a quarter of a second more, and ends
// for the reason that its peer gives meanwhile.
func TestReadsOnWhenAWriteFails(t *testing.T) {
	for _, x := range []struct {
		name string
		says bool
	}{{"and the peer says why", true}, {"and the peer says nothing", false}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				c, err := NewClient(a, newRecorder(t), Config{Pool: tarntest.NewPool(t)})
				if err != nil {
					t.Fatal(err)
				}
				run := make(chan error, 1)
				go func() { run <- c.Run() }()
				fr := http2.NewFramer(b, b)
				fr.WriteSettings()
				synctest.Wait()
				b.(*memConn).r.close()
				begun := time.Now()
				k := newCall()
				s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
				if err != nil {
					t.Fatal(err)
				}
				if x.says {
					<-time.After(abortTimeout - time.Millisecond)
					fr.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("enough"))
				}
				<-run
				if d := time.Since(begun); d != abortTimeout {
					t.Errorf("Run ended after %v", d)
				}
				<-k.done
				var ce *ConnError
				if errors.As(k.err, &ce) != x.says || x.says && (ce.Fault != Told || ce.Code != EnhanceYourCalm || ce.Reason != "enough") {
					t.Errorf("the stream ended with %v", k.err)
				}
				s.Release()
				b.Close()
			})
		})
	}
}
