package h2

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2/internal/hpack"
)

// blocked opens a stream whose writing is then blocked: the peer's window is used up.
func blocked(t *testing.T, c *Conn) (*Stream, *call, chan error) {
	t.Helper()
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		wrote <- s.Write(ctx, &Out{Data: c.cfg.Pool.Get(200_000)})
	}()
	return s, k, wrote
}

func awaitWaiter(r *raw, n int) {
	r.wait("DATA up to the window", func(s seen) bool { return s.typ == http2.FrameData && s.n == n })
}

// last is the length of the DATA frame that fills the protocol's first window.
const last = initialWindow % minMaxFrame

func TestBlockedWrite(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause func(r *raw, c *Conn, s *Stream)
		want  func(err error) bool
	}{
		{"window", func(r *raw, c *Conn, s *Stream) {
			r.fr.WriteWindowUpdate(0, 1<<20)
			r.fr.WriteWindowUpdate(s.ID(), 1<<20)
		}, func(err error) bool { return err == nil }},
		{"settings", func(r *raw, c *Conn, s *Stream) {
			r.fr.WriteWindowUpdate(0, 1<<20)
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		}, func(err error) bool { return err == nil }},
		{"peer's reset", func(r *raw, c *Conn, s *Stream) { r.fr.WriteRSTStream(s.ID(), http2.ErrCodeRefusedStream) },
			func(err error) bool {
				var se *StreamError
				return errors.As(err, &se) && se.Code == RefusedStream && se.Fault == Told
			}},
		{"own reset", func(r *raw, c *Conn, s *Stream) { s.Reset(Cancel) },
			func(err error) bool { return err == ErrStreamDone }},
		{"handle's reset", func(r *raw, c *Conn, s *Stream) { s.Handle().Reset(Cancel) },
			func(err error) bool { return err == ErrStreamDone }},
		{"loss", func(r *raw, c *Conn, s *Stream) { r.nc.Close() }, func(err error) bool { return err != nil }},
		{"close", func(r *raw, c *Conn, s *Stream) { c.Close() }, func(err error) bool { return err == ErrClosed }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, conn, _ := rawClient(t, Config{})
			s, _, wrote := blocked(t, conn)
			awaitWaiter(r, last)
			c.cause(r, conn, s)
			if err := <-wrote; !c.want(err) {
				t.Errorf("Write returned %v", err)
			}
			s.Release()
		})
	}
	t.Run("context", func(t *testing.T) {
		r, conn, _ := rawClient(t, Config{})
		s, err := conn.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		wrote := make(chan error, 1)
		go func() { wrote <- s.Write(ctx, &Out{Data: conn.cfg.Pool.Get(200_000)}) }()
		awaitWaiter(r, last)
		cancel()
		if err := <-wrote; err != context.Canceled {
			t.Error(err)
		}
		s.Release()
		r.wantReset(1, Cancel)
	})
}

func TestPost(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	s, err := c.Open(nil, newCall(), &Out{Block: testRequest}) //lint:ignore SA1012 nil means: do not wait
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Post(&Out{Data: c.cfg.Pool.Get(initialWindow + 1)}); err != ErrWouldBlock {
		t.Error(err)
	}
	if err := s.Post(&Out{Data: c.cfg.Pool.Get(initialWindow), Ending: End}); err != nil {
		t.Error(err)
	}
	r.wait("END_STREAM", func(s seen) bool { return s.typ == http2.FrameData && s.end })
	if err := s.Post(&Out{Ending: End}); err != ErrStreamDone {
		t.Error(err)
	}
	s.Release()
	if _, err := c.Open(nil, nil, &Out{Block: testRequest, Data: c.cfg.Pool.Get(1)}); err != ErrWouldBlock {
		t.Error(err) // the connection's window is used up
	}
}

// TestWriteLater: what is queued waits for Flush, and much of it does not wait.
func TestWriteLater(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	r.fr.WriteWindowUpdate(0, 1<<20)
	var streams [2]*Stream
	for i := range streams {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		streams[i] = s
	}
	pingPong(r, c)
	eventually(t, "a pause of the goroutine that reads", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.handling // or its end would send
	}, stacks)
	queued := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.send.queued()
	}
	for i, s := range streams {
		if err := s.WriteLater(nil, &Out{Data: c.cfg.Pool.Get(100)}); err != nil { //lint:ignore SA1012 nil means: as long as it takes
			t.Fatal(err)
		}
		if got, want := queued(), (i+1)*(frameHeaderLen+100); got != want {
			t.Fatalf("%d bytes are queued, not %d", got, want)
		}
	}
	c.Flush()
	r.wait("both", func(s seen) bool { return s.typ == http2.FrameData && s.id == streams[1].ID() })
	for range batchLimit / minMaxFrame {
		if err := streams[0].WriteLater(nil, &Out{Data: c.cfg.Pool.Get(minMaxFrame)}); err != nil { //lint:ignore SA1012 nil means: as long as it takes
			t.Fatal(err)
		}
	}
	r.wait("much", func(s seen) bool { return s.typ == http2.FrameData && s.n == minMaxFrame })
}

// TestWriteReleases: a Write with Release releases its stream when it succeeds, and leaves it to its caller when it fails.
func TestWriteReleases(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*Stream, context.Context, *Out) error
	}{{"Write", (*Stream).Write}, {"WriteLater", (*Stream).WriteLater}} {
		t.Run(c.name, func(t *testing.T) {
			r, conn, _ := rawClient(t, Config{})
			s, err := conn.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			tooMuch := &Out{Data: conn.cfg.Pool.Get(initialWindow + 1), Ending: End, Release: true}
			if err := c.write(s, ctx, tooMuch); err != context.Canceled || conn.Streams() != 1 {
				t.Fatalf("%v, with %d streams held", err, conn.Streams())
			}
			s.Release()

			k := newCall()
			s, err = conn.Open(context.Background(), k, &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			h := s.Handle()
			r.headers(s.ID(), End, ":status", "200")
			<-k.done
			if err := c.write(s, context.Background(), &Out{Ending: End, Release: true}); err != nil || conn.Streams() != 0 {
				t.Fatalf("%v, with %d streams held", err, conn.Streams())
			}
			conn.Flush()
			r.wait("END_STREAM", func(f seen) bool { return f.typ == http2.FrameData && f.id == h.s.ID() && f.end })
			h.Reset(Cancel)
			defer func() {
				if recover() == nil {
					t.Error("Release after that did not panic")
				}
			}()
			s.Release()
		})
	}
}

func TestStreamLimit(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	if c.CanOpen() {
		t.Error("CanOpen at the limit")
	}
	if _, err := c.Open(nil, nil, &Out{Block: testRequest}); err != ErrStreamLimit {
		t.Error(err)
	}
	if _, err := c.Open(context.Background(), nil, &Out{Block: testRequest, NoWait: true}); err != ErrStreamLimit {
		t.Errorf("Open with NoWait: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Open(ctx, nil, &Out{Block: testRequest}); err != context.Canceled {
		t.Error(err)
	}
	second := make(chan *Stream)
	go func() {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Error(err)
		}
		second <- s
	}()
	r.headers(1, End, ":status", "200")
	s2 := <-second
	s.Release()
	s2.Release()
}

// TestHandleStale: a handle of a stream that was released does nothing to the
// call that has its place.
func TestHandleStale(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	k := newCall()
	s, _ := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
	h := s.Handle()
	r.headers(1, End, ":status", "200")
	<-k.done
	s.Release()
	pingPong(r, c)
	k2 := newCall()
	s2, _ := c.Open(context.Background(), k2, &Out{Block: testRequest, Ending: End})
	if s2 != s {
		t.Fatal("the stream was not used again")
	}
	h.Reset(Cancel)
	Handle{}.Reset(Cancel)
	r.headers(3, End, ":status", "200")
	if <-k2.done; k2.err != nil {
		t.Error(k2.err)
	}
	s2.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second Release did not panic")
		}
	}()
	s2.Release()
}

// pingPong makes a round trip, so that all frames before it have been handled.
func pingPong(r *raw, c *Conn) {
	back := make(chan struct{})
	go func() {
		defer close(back)
		c.Ping(context.Background())
	}()
	r.wait("PING", func(s seen) bool { return s.typ == http2.FramePing && !s.ack })
	r.fr.WritePing(true, [8]byte{'p', 'i', 'n', 'g'})
	<-back
}

// TestEarlyAnswer: a server that has answered before the request's end says that
// the rest is not wanted.
func TestEarlyAnswer(t *testing.T) {
	r, _, rec := rawServer(t, Config{}, nil)
	rec.early.Store(true)
	r.request(1, More)
	r.wantReset(1, NoError)
	r.fr.WriteData(1, true, []byte("too late")) // no fault
	rec.early.Store(false)
	r.lives(3)
}

func TestInformational(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	k := newCall()
	s, _ := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
	r.headers(1, More, ":status", "103", "link", "x")
	r.headers(1, More, ":status", "200", "x", "y")
	r.headers(1, End, "grpc-status", "5")
	if <-k.done; k.header.Status != 200 || len(k.fields) != 1 || k.trailer[0].Value != "5" {
		t.Errorf("%+v %v %v", k.header, k.fields, k.trailer)
	}
	s.Release()
}

// Informational responses that the caller does not take end their stream when together they are longer than a
// header list may be.
func TestInformationalBounded(t *testing.T) {
	const limit = 4 << 10
	size := len(":status") + len("103") + hpack.EntryCost
	for _, n := range []int{limit / size, limit/size + 1} {
		r, c, _ := rawClient(t, Config{MaxHeaderList: limit})
		k := newCall()
		s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			r.headers(1, More, ":status", "103")
		}
		r.headers(1, End, ":status", "200")
		<-k.done
		var se *StreamError
		if bounded := errors.As(k.err, &se) && se.Code == ProtocolError && se.Fault == Peer; bounded != (n*size > limit) {
			t.Errorf("%d bytes of informational responses: ended with %v", n*size, k.err)
		}
		s.Release()
	}
}

// TestMalformedResponse: the stream is reset, the connection lives.
func TestMalformedResponse(t *testing.T) {
	for name, fields := range map[string][]string{
		"no status":     {"content-type", "application/grpc"},
		"bad status":    {":status", "2x0"},
		"status 099":    {":status", "099"},
		"status 000":    {":status", "000"},
		"long status":   {":status", "2000"},
		"request":       {":status", "200", ":path", "/"},
		"upper case":    {":status", "200", "X-Y", "z"},
		"newline":       {":status", "200", "x", "a\nb"},
		"connection":    {":status", "200", "connection", "close"},
		"twice":         {":status", "200", ":status", "200"},
		"after regular": {"x", "y", ":status", "200"},
		"bad length":    {":status", "200", "content-length", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, _ := rawClient(t, Config{})
			k := newCall()
			s, _ := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
			r.headers(1, More, fields...)
			<-k.done
			var se *StreamError
			if !errors.As(k.err, &se) || se.Code != ProtocolError || se.Fault != Peer {
				t.Errorf("ended with %v", k.err)
			}
			r.wantReset(1, ProtocolError)
			s.Release()
		})
	}
}

// TestBlanksInResponse: a client takes blanks around a value as they are.
func TestBlanksInResponse(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	const message = " what the server said\t "
	r.headers(1, End, ":status", "200", "grpc-message", message)
	<-k.done
	if k.err != nil || len(k.fields) != 1 || k.fields[0].Value != message {
		t.Errorf("%v, %v", k.fields, k.err)
	}
	s.Release()
}

// TestLongHeaders: header lists of many frames, both ways.
func TestLongHeaders(t *testing.T) {
	p := newPair(t, tcpWiring, Config{}, Config{})
	long := strings.Repeat("~", 40_000)
	p.sh.serve = func(s *Stream, k *call) {
		h := Header{Fields: k.fields}
		v, _ := h.Get("x-long")
		s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer, Trailers: []Field{{Name: "x-back", Value: v}}})
	}
	k := newCall()
	s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest, Fields: []Field{{Name: "x-long", Value: long}}, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	if <-k.done; k.err != nil || len(k.trailer) != 2 || k.trailer[1].Value != long {
		t.Errorf("%v, %d trailers", k.err, len(k.trailer))
	}
	s.Release()
}
