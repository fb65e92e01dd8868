package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/tarntest"
)

// raw is a peer that sends any frames, also invalid ones: x/net's Framer, with its
// checks off. What comes from the other side is collected by listen.
type raw struct {
	t    testing.TB
	nc   net.Conn
	fr   *http2.Framer
	hbuf bytes.Buffer
	enc  *hpack.Encoder

	mu     sync.Mutex
	cond   *sync.Cond
	seen   []seen
	closed bool
}

// seen is a frame that came.
type seen struct {
	typ  http2.FrameType
	id   uint32
	code http2.ErrCode // RST_STREAM, GOAWAY
	text string        // GOAWAY's debug data
	n    int           // WINDOW_UPDATE's increment, DATA's length
	end  bool
	ack  bool
}

func newRaw(t testing.TB, nc net.Conn) *raw {
	r := &raw{t: t, nc: nc, fr: http2.NewFramer(nc, nc)}
	r.fr.AllowIllegalWrites, r.fr.AllowIllegalReads = true, true
	r.fr.SetMaxReadFrameSize(1 << 24)
	r.enc = hpack.NewEncoder(&r.hbuf)
	r.cond = sync.NewCond(&r.mu)
	return r
}

// rawServer is this package's server with a raw client, after the exchange of SETTINGS.
func rawServer(t testing.TB, cfg Config, serve func(*Stream, *call)) (*raw, *Conn, *recorder) {
	t.Helper()
	a, b := wireOver(t)
	return rawServerOn(t, a, b, cfg, serve)
}

// rawServerOn is rawServer with the connection's ends of the client, a, and of the server.
func rawServerOn(t testing.TB, a, b net.Conn, cfg Config, serve func(*Stream, *call)) (*raw, *Conn, *recorder) {
	t.Helper()
	cfg.Pool = tarntest.NewPool(t)
	rec := newRecorder(t)
	rec.serve = serve
	if serve == nil {
		rec.serve = echo(t, cfg.Pool)
	}
	s, err := NewServer(b, rec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); s.Run() }()
	r := newRaw(t, a)
	t.Cleanup(func() {
		a.Close()
		s.Close()
		<-run
		rec.calls.Wait()
	})
	a.Write([]byte(Preface))
	r.fr.WriteSettings()
	go r.listen()
	return r, s, rec
}

// rawClient is this package's client with a raw server, after the exchange of SETTINGS.
func rawClient(t testing.TB, cfg Config, settings ...http2.Setting) (*raw, *Conn, *recorder) {
	t.Helper()
	a, b := wireOver(t)
	cfg.Pool = tarntest.NewPool(t)
	rec := newRecorder(t)
	c, err := NewClient(a, rec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	r := newRaw(t, b)
	t.Cleanup(func() { b.Close(); c.Close(); <-run })
	if _, err := io.ReadFull(b, make([]byte, len(Preface))); err != nil {
		t.Fatal(err)
	}
	r.fr.WriteSettings(settings...)
	go r.listen()
	<-rec.gotSettings
	return r, c, rec
}

func (r *raw) listen() {
	for {
		f, err := r.fr.ReadFrame()
		if err != nil {
			r.mu.Lock()
			r.closed = true
			r.cond.Broadcast()
			r.mu.Unlock()
			r.nc.Close()
			return
		}
		r.note(f)
	}
}

// note adds f to what has come.
func (r *raw) note(f http2.Frame) {
	h := f.Header()
	s := seen{typ: h.Type, id: h.StreamID}
	switch f := f.(type) {
	case *http2.RSTStreamFrame:
		s.code = f.ErrCode
	case *http2.GoAwayFrame:
		s.code, s.id, s.text = f.ErrCode, f.LastStreamID, string(f.DebugData())
	case *http2.WindowUpdateFrame:
		s.n = int(f.Increment)
	case *http2.DataFrame:
		s.n, s.end = len(f.Data()), f.StreamEnded()
	case *http2.HeadersFrame:
		s.end = f.StreamEnded()
	case *http2.PingFrame:
		s.ack = f.IsAck()
	case *http2.SettingsFrame:
		s.ack = f.IsAck()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, s)
	r.cond.Broadcast()
}

// wait waits for a frame that is as is wants, among all that came.
func (r *raw) wait(what string, is func(seen) bool) (seen, bool) {
	r.t.Helper()
	timeout := time.AfterFunc(20*time.Second, func() {
		r.mu.Lock()
		r.closed = true
		r.cond.Broadcast()
		r.mu.Unlock()
	})
	defer timeout.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; ; {
		for ; i < len(r.seen); i++ {
			if is(r.seen[i]) {
				return r.seen[i], true
			}
		}
		if r.closed {
			r.t.Errorf("no %s among %d frames; the last: %+v", what, len(r.seen), r.seen[max(0, len(r.seen)-5):])
			return seen{}, false
		}
		r.cond.Wait()
	}
}

func (r *raw) count(is func(seen) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, s := range r.seen {
		if is(s) {
			n++
		}
	}
	return n
}

func (r *raw) wantGoAway(code Code) {
	r.t.Helper()
	g, ok := r.wait("GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway })
	if ok && Code(g.code) != code {
		r.t.Errorf("GOAWAY of %v (%q), not %v", g.code, g.text, code)
	}
}

// wantEnd checks that s has ended because of what r sent, with code. Whether the GOAWAY has come is not asked: a loaded machine may
// keep the goroutine that sends it, or the reader of r, from running for longer than an end may take, and what r has sent since then
// makes the kernel drop it (TestGoAwayArrives has fake time). A GOAWAY that has come must have the code.
func (r *raw) wantEnd(s *Conn, code Code) {
	r.t.Helper()
	if !within(r.t, "the connection's end", s.Done()) {
		return
	}
	var ce *ConnError
	if err := s.Err(); !errors.As(err, &ce) || ce.Code != code || ce.Fault != Peer {
		r.t.Errorf("ended with %v, not for %v", err, code)
	}
	if n := r.count(func(s seen) bool { return s.typ == http2.FrameGoAway && Code(s.code) != code }); n > 0 {
		r.t.Errorf("%d GOAWAY of other codes than %v", n, code)
	}
}

func (r *raw) wantReset(id uint32, code Code) {
	r.t.Helper()
	g, ok := r.wait("RST_STREAM", func(s seen) bool { return s.typ == http2.FrameRSTStream && s.id == id })
	if ok && Code(g.code) != code {
		r.t.Errorf("RST_STREAM of %v, not %v", g.code, code)
	}
}

// headers sends a request or response; fields alternate names and values.
func (r *raw) headers(id uint32, e Ending, fields ...string) error {
	return r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block(fields...), EndHeaders: true, EndStream: e == End})
}

// block encodes fields; it is valid until the next call.
func (r *raw) block(fields ...string) []byte {
	r.hbuf.Reset()
	for i := 0; i < len(fields); i += 2 {
		r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return r.hbuf.Bytes()
}

var rawRequest = []string{":method", "POST", ":scheme", "http", ":path", "/x", ":authority", "x", "content-type", "application/grpc"}

func (r *raw) request(id uint32, e Ending) error { return r.headers(id, e, rawRequest...) }

// lives checks that the connection still serves: an echo on stream id.
func (r *raw) lives(id uint32) {
	r.t.Helper()
	r.request(id, More)
	r.fr.WriteData(id, true, []byte("alive"))
	r.wait("answer", func(s seen) bool { return s.id == id && s.typ == http2.FrameHeaders && s.end })
}

// floodRequests sends n requests, each followed by the frame that then writes, a hundred of them in a piece, so that the
// other side finds many at once however little of the processor this one has. It returns as flood does.
func (r *raw) floodRequests(n int, then func(fr *http2.Framer, id uint32)) int {
	const together = 100
	var out bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	return together * r.flood(n/together, func(i int) error {
		for j := range together {
			id := uint32(2*(i*together+j) + 1)
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block(rawRequest...), EndHeaders: true, EndStream: true})
			then(fr, id)
		}
		_, err := out.WriteTo(r.nc)
		return err
	})
}

// flood calls send until it fails or n times, and returns how often it succeeded. The peer is expected to
// close the connection.
func (r *raw) flood(n int, send func(i int) error) int {
	r.nc.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for i := range n {
		if err := send(i); err != nil {
			return i
		}
	}
	return n
}
