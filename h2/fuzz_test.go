package h2

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn"
	h2hpack "github.com/tarn-go/tarn/h2/internal/hpack"
	"github.com/tarn-go/tarn/tarntest"
)

// script is a connection whose peer sends the given bytes and then closes it, without
// reading.
type script struct {
	mu   sync.Mutex
	in   *bytes.Reader
	step int // bytes a read gives at most
	out  int
}

func (s *script) Read(p []byte) (int, error) {
	if s.step > 0 && len(p) > s.step {
		p = p[:s.step]
	}
	return s.in.Read(p)
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out += len(p); s.out > 64<<20 {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return memAddr{} }
func (s *script) RemoteAddr() net.Addr             { return memAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// fuzzHandler checks the order of callbacks and answers at once.
type fuzzHandler struct {
	t     *testing.T
	pool  *tarn.Pool
	land  []byte
	calls map[*Stream]*fuzzCall
}

type fuzzCall struct{ headers, end, reset bool }

func (h *fuzzHandler) OnHeaders(s *Stream, hd *Header, e Ending) {
	k := h.calls[s]
	if k == nil {
		k = &fuzzCall{}
		h.calls[s] = k
	}
	if k.end || k.reset {
		h.t.Error("HEADERS after the end")
	}
	if !k.headers && s.Conn().side == server && (hd.Method == "" || hd.Method != "CONNECT" && (hd.Path == "" || hd.Scheme == "")) {
		h.t.Errorf("delivered without pseudo-fields: %+v", hd)
	}
	for _, f := range append(append([]Field(nil), hd.Fields...), hd.Extra...) {
		if h2hpack.CheckField(f.Name, f.Value, h2hpack.BlanksRefused) != "" || f.Name[0] == ':' {
			h.t.Errorf("delivered %+v", f)
		}
	}
	k.headers = true
	h.ended(s, k, e)
}

func (h *fuzzHandler) OnData(s *Stream, b tarn.Buffer, e Ending) {
	k := h.calls[s]
	if k == nil || !k.headers || k.end || k.reset {
		h.t.Error("DATA before HEADERS or after the end")
	}
	n := b.Len()
	b.Free()
	s.Consumed(n)
	h.ended(s, k, e)
}

func (h *fuzzHandler) Land(s *Stream, n int) []byte {
	if s.ID()%4 == 1 {
		return nil
	}
	return h.land
}

func (h *fuzzHandler) Landed(s *Stream, n int, e Ending) {
	s.Consumed(n)
	h.ended(s, h.calls[s], e)
}

func (h *fuzzHandler) ended(s *Stream, k *fuzzCall, e Ending) {
	if e != End {
		return
	}
	k.end = true
	if s.Conn().side == server {
		s.Post(&Out{Block: testResponse, Data: h.pool.Get(100), TrailerBlock: testTrailer})
		delete(h.calls, s)
		s.Release()
	}
}

func (h *fuzzHandler) OnReset(s *Stream, err error) {
	k := h.calls[s]
	if s.Conn().side == client {
		return
	}
	if k == nil || k.reset || err == nil {
		h.t.Error("OnReset out of turn")
	}
	k.reset = true
	delete(h.calls, s)
	s.Release()
}

// converse runs one side against the bytes that the peer sends.
func converse(t *testing.T, sd side, in []byte, step int) {
	pool := tarntest.NewPool(t)
	h := &fuzzHandler{t: t, pool: pool, land: make([]byte, 1000), calls: map[*Stream]*fuzzCall{}}
	nc := &script{in: bytes.NewReader(in), step: step}
	cfg := Config{Pool: pool, MaxStreams: 8, Window: 5000, MaxWindow: 20_000, MaxHeaderList: 4000}
	if sd == server {
		c, err := NewServer(nc, h, cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.Run()
		if c.Streams() != 0 {
			t.Errorf("%d streams are left", c.Streams())
		}
		return
	}
	c, err := NewClient(nc, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var open []*Stream
	for range 3 {
		s, err := c.Open(nil, nil, &Out{Block: testRequest, Data: pool.Get(100), Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	c.Run()
	for _, s := range open {
		s.Release()
	}
	if c.Streams() != 0 {
		t.Errorf("%d streams are left", c.Streams())
	}
}

// conversation builds a plausible input for a seed.
func conversation(f func(fr *http2.Framer, block func(fields ...string) []byte)) []byte {
	var out, hb bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	enc := hpack.NewEncoder(&hb)
	fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 100})
	f(fr, func(fields ...string) []byte {
		hb.Reset()
		for i := 0; i < len(fields); i += 2 {
			enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return append([]byte(nil), hb.Bytes()...)
	})
	return out.Bytes()
}

func seeds() [][]byte {
	return [][]byte{
		conversation(func(fr *http2.Framer, block func(...string) []byte) {
			for id := uint32(1); id < 9; id += 2 {
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(rawRequest...), EndHeaders: true})
				fr.WriteDataPadded(id, false, []byte("some data"), make([]byte, 7))
				fr.WriteData(id, true, make([]byte, 2000))
			}
			fr.WriteWindowUpdate(0, 1000)
			fr.WritePing(false, [8]byte{1, 2, 3})
			fr.WriteGoAway(1, http2.ErrCodeNo, []byte("bye"))
		}),
		conversation(func(fr *http2.Framer, block func(...string) []byte) {
			b := block(append(rawRequest, "grpc-timeout", "1S")...)
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:5], Priority: http2.PriorityParam{StreamDep: 3}})
			fr.WriteContinuation(1, true, b[5:])
			fr.WriteRSTStream(1, http2.ErrCodeCancel)
			fr.WriteData(1, true, []byte("late"))
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block(rawRequest...), EndHeaders: true, PadLength: 9})
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block("x-trailer", "1"), EndHeaders: true, EndStream: true})
		}),
		conversation(func(fr *http2.Framer, block func(...string) []byte) {
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "200", "content-type", "application/grpc"), EndHeaders: true})
			fr.WriteData(1, false, make([]byte, 3000))
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block("grpc-status", "0"), EndHeaders: true, EndStream: true})
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block(":status", "100"), EndHeaders: true})
			fr.WriteRSTStream(5, http2.ErrCodeRefusedStream)
			fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
		}),
	}
}

// FuzzServer: a whole conversation with a server. Nothing a peer sends may panic,
// hang, leak or reach the handler out of order.
func FuzzServer(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, 0)
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, in []byte, step int) { converse(t, server, append([]byte(Preface), in...), step) })
}

// FuzzClient: the same with a client that has opened three streams.
func FuzzClient(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, 0)
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, step int) { converse(t, client, in, step) })
}

var _ io.Reader = (*script)(nil)
