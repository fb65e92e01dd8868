package h2

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// extendRecorder is a handler that passes on what extend.go adds.
type extendRecorder struct {
	headers chan Header
	inform  chan Header
	resets  chan error
}

func newExtendRecorder() *extendRecorder {
	return &extendRecorder{make(chan Header, 8), make(chan Header, 8), make(chan error, 8)}
}

func (r *extendRecorder) OnHeaders(s *Stream, h *Header, e Ending) {
	s.IgnoreLength()
	r.headers <- *h
	if s.Conn().side == server {
		s.Release()
	}
}
func (r *extendRecorder) OnInformational(s *Stream, h *Header) { r.inform <- *h }
func (r *extendRecorder) OnReset(s *Stream, err error)         { r.resets <- err }

func rawExtended(t *testing.T, cfg Config) (*raw, *extendRecorder) {
	t.Helper()
	a, b := tcpWiring(t)
	cfg.Pool = tarntest.NewPool(t)
	rec := newExtendRecorder()
	s, err := NewServer(b, dataDropper{rec}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.PrefaceRead()
	run := make(chan struct{})
	go func() { defer close(run); s.Run() }()
	r := newRaw(t, a)
	t.Cleanup(func() { a.Close(); s.Close(); <-run })
	r.fr.WriteSettings()
	go r.listen()
	return r, rec
}

func TestPrefaceThatTheCallerHasRead(t *testing.T) {
	r, rec := rawExtended(t, Config{})
	r.request(1, End)
	if h := <-rec.headers; h.Path != "/x" {
		t.Errorf("the request came as %+v", h)
	}
}

func TestExtendedConnect(t *testing.T) {
	websocket := []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/chat", ":authority", "x"}
	t.Run("permitted", func(t *testing.T) {
		r, rec := rawExtended(t, Config{ExtendedConnect: Permit})
		r.headers(1, More, websocket...)
		if h := <-rec.headers; h.Protocol != "websocket" || h.Path != "/chat" {
			t.Errorf("the request came as %+v", h)
		}
	})
	t.Run("not permitted", func(t *testing.T) {
		r, _ := rawExtended(t, Config{})
		r.headers(1, More, websocket...)
		r.wantReset(1, ProtocolError)
	})
	for name, fields := range map[string][]string{
		"CONNECT with a path":          {":method", "CONNECT", ":path", "/", ":authority", "x"},
		"CONNECT with a scheme":        {":method", "CONNECT", ":scheme", "http", ":authority", "x"},
		"CONNECT without an authority": {":method", "CONNECT"},
		"GET with a protocol":          {":method", "GET", ":protocol", "websocket", ":scheme", "https", ":path", "/", ":authority", "x"},
		"extended without a path":      {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := rawExtended(t, Config{ExtendedConnect: Permit})
			r.headers(1, More, fields...)
			r.wantReset(1, ProtocolError)
		})
	}
}

func TestLongHeadersDelivered(t *testing.T) {
	r, rec := rawExtended(t, Config{MaxHeaderList: 1 << 10, LongHeaders: DeliverLong})
	r.headers(1, End, append(rawRequest[:len(rawRequest):len(rawRequest)], "a", strings.Repeat("x", 2<<10))...)
	if h := <-rec.headers; !h.Truncated || h.Path != "/x" || len(h.Fields)+len(h.Extra) > 0 || h.Memo != nil {
		t.Errorf("the request came as %+v", h)
	}
	r.request(3, End)
	if h := <-rec.headers; h.Truncated {
		t.Error("the next request is truncated, too")
	}
}

func extendedClient(t *testing.T, settings ...http2.Setting) (*raw, *Conn, *extendRecorder) {
	t.Helper()
	a, b := tcpWiring(t)
	rec := newExtendRecorder()
	c, err := NewClient(a, dataDropper{rec}, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	r := newRaw(t, b)
	t.Cleanup(func() { b.Close(); c.Close(); <-run })
	readPreface(t, b)
	r.fr.WriteSettings(settings...)
	go r.listen()
	return r, c, rec
}

func readPreface(t testing.TB, nc net.Conn) {
	t.Helper()
	p := make([]byte, len(Preface))
	for n := 0; n < len(p); {
		m, err := nc.Read(p[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
}

func TestInformationalResponses(t *testing.T) {
	r, c, rec := extendedClient(t)
	s, err := c.Open(context.Background(), nil, &Out{Fields: []Field{{Name: ":method", Value: "HEAD"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}}, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	r.headers(1, More, ":status", "103", "link", "</a.css>")
	r.headers(1, More, ":status", "200", "content-length", "7")
	if h := <-rec.inform; h.Status != 103 {
		t.Errorf("informational response of status %d", h.Status)
	}
	if h := <-rec.headers; h.Status != 200 {
		t.Errorf("response of status %d", h.Status)
	}
	r.fr.WriteData(1, true, nil) // shorter than content-length, as the answer to HEAD is
	r.fr.WritePing(false, [8]byte{1})
	r.wait("the answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	select {
	case err := <-rec.resets:
		t.Errorf("the stream ended with %v", err)
	default:
	}
	s.Release()
}

func TestNoSwitchingProtocols(t *testing.T) {
	r, c, rec := extendedClient(t)
	s, err := c.Open(context.Background(), nil, &Out{Fields: []Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}}, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	r.headers(1, More, ":status", "101")
	if err := <-rec.resets; !strings.Contains(err.Error(), "101") {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestPeerExtendedConnect(t *testing.T) {
	r, c, _ := extendedClient(t, http2.Setting{ID: 8, Val: 1})
	r.wait("the acknowledgement", func(s seen) bool { return s.typ == http2.FrameSettings && s.ack })
	if !c.PeerExtendedConnect() {
		t.Error("the peer permits extended CONNECT, and the connection does not say so")
	}
}

func TestPeerHeaderList(t *testing.T) {
	r, c, _ := extendedClient(t, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 12345})
	r.wait("the acknowledgement", func(s seen) bool { return s.typ == http2.FrameSettings && s.ack })
	if n := c.PeerHeaderList(); n != 12345 {
		t.Errorf("the peer permits header lists of 12345 bytes, the connection says %d", n)
	}
}

// dataDropper completes an extendRecorder to a Handler.
type dataDropper struct{ *extendRecorder }

func (dataDropper) OnData(s *Stream, b tarn.Buffer, e Ending) {
	s.Consumed(b.Len())
	b.Free()
}

// batchRecorder notes the order of deliveries.
type batchRecorder struct {
	dataDropper
	events chan string
}

func (b batchRecorder) OnHeaders(s *Stream, h *Header, e Ending) {
	b.events <- h.Path
	s.Release()
}

func (b batchRecorder) OnBatchEnd() {
	select {
	case b.events <- "end":
	default:
	}
}

func TestBatchEnd(t *testing.T) {
	a, b := tcpWiring(t)
	rec := batchRecorder{dataDropper{newExtendRecorder()}, make(chan string, 64)}
	s, err := NewServer(b, rec, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); s.Run() }()
	t.Cleanup(func() { a.Close(); s.Close(); <-run })
	r := newRaw(t, a)
	a.Write([]byte(Preface))
	r.fr.WriteSettings()
	r.request(1, End)
	for e := range rec.events {
		if e == "/x" {
			break
		}
	}
	if e := <-rec.events; e != "end" {
		t.Errorf("after the request came %q", e)
	}
}
