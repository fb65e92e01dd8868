package h2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn"
	h2hpack "github.com/tarn-go/tarn/h2/internal/hpack"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestMalformedRequests: each is answered by a reset of its stream, and the connection
// goes on.
func TestMalformedRequests(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, _, _ := rawServer(t, Config{}, nil)
		id := uint32(1)
		for name, fields := range map[string][]string{
			"two content-lengths":     {"content-length", "1", "content-length", "2"},
			"content-length, a list":  {"content-length", "1, 1"},
			"two hosts":               {"host", "a", "host", "b"},
			"a control character":     {"x", "a\x01b"},
			"DEL":                     {"x", "a\x7f"},
			"NUL":                     {"x", "a\x00b"},
			"a line break":            {"x", "a\r\nb: c"},
			"a blank in front":        {"x", " a"},
			"a tab behind":            {"x", "a\t"},
			"a blank alone":           {"x", " "},
			"upper case":              {"X", "a"},
			"a blank in a name":       {"x y", "a"},
			"connection":              {"connection", "close"},
			"te":                      {"te", "gzip"},
			"a pseudo-field behind":   {"x", "a", ":path", "/"},
			"an unknown pseudo-field": {":x", "a"},
		} {
			t.Run(name, func(t faultnet.OnKind) {
				r.headers(id, More, append(rawRequest[:len(rawRequest):len(rawRequest)], fields...)...)
				r.wantReset(id, ProtocolError)
				r.lives(id + 2)
				id += 4
			})
		}
		for name, fields := range map[string][]string{
			"equal content-lengths": {"content-length", "5", "content-length", "5"},
			"blanks inside":         {"x", "a \t b"},
			"bytes above 127":       {"x", "\xff\x80"},
			"no value":              {"x", ""},
		} {
			t.Run(name, func(t faultnet.OnKind) {
				r.headers(id, More, append(rawRequest[:len(rawRequest):len(rawRequest)], fields...)...)
				r.fr.WriteData(id, true, []byte("12345"))
				r.wait("answer", func(s seen) bool { return s.id == id && s.end })
				id += 2
			})
		}
	})
}

// TestBlanksInRequest: a server with FieldBlanks takes blanks around a value as they are.
func TestBlanksInRequest(t *testing.T) {
	got := make(chan []Field, 1)
	r, _, _ := rawServer(t, Config{FieldBlanks: Permit}, func(_ *Stream, k *call) { got <- k.fields })
	r.headers(1, End, append(rawRequest[:len(rawRequest):len(rawRequest)], "x", " a\t", "y", " ")...)
	var values []string
	for _, f := range <-got {
		if f.Name == "x" || f.Name == "y" {
			values = append(values, f.Value)
		}
	}
	if !slices.Equal(values, []string{" a\t", " "}) {
		t.Errorf("%q", values)
	}
	r.headers(3, End, append(rawRequest[:len(rawRequest):len(rawRequest)], "te", " trailers")...)
	r.wantReset(3, ProtocolError)
}

// sendBlock sends a header block in frames of at most size bytes.
func (r *raw) sendBlock(id uint32, block []byte, size int) {
	n := min(len(block), size)
	r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: true})
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), size)
		r.fr.WriteContinuation(id, n == len(block), block[:n])
	}
}

// TestLongHeaderBlock: a block beyond what is gathered costs its stream, and the
// decoder's table stays in step with the peer's.
func TestLongHeaderBlock(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for _, size := range []int{16384, 16384 / 4, 200_000} {
			t.Run(fmt.Sprint(size), func(t faultnet.OnKind) {
				r, s, _ := rawServer(t, Config{MaxHeaderList: 8 << 10}, nil)
				r.lives(1)
				bounded(t, s, 5, 1<<20, func() {
					var fields []string
					for i := range 40 {
						fields = append(fields, fmt.Sprint("x-", i), strings.Repeat("€", 800))
					}
					r.hbuf.Reset()
					for i := 0; i < len(rawRequest); i += 2 {
						r.enc.WriteField(hpack.HeaderField{Name: rawRequest[i], Value: rawRequest[i+1]})
					}
					for i := 0; i < len(fields); i += 2 {
						r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
					}
					r.enc.WriteField(hpack.HeaderField{Name: "x-last", Value: "in the table"})
					if r.hbuf.Len() < 3*8<<10 {
						t.Fatal(r.hbuf.Len(), "bytes are not long")
					}
					r.sendBlock(3, r.hbuf.Bytes(), size)
					r.wantReset(3, EnhanceYourCalm)
					// These refer to the table that the long block left.
					r.headers(5, More, append(rawRequest[:len(rawRequest):len(rawRequest)], "x-last", "in the table")...)
					r.fr.WriteData(5, true, []byte("x"))
					r.wait("answer", func(s seen) bool { return s.id == 5 && s.end })
					r.lives(7)
				})
			})
		}
		t.Run("without end", func(t faultnet.OnKind) {
			r, s, _ := rawServer(t, Config{MaxHeaderList: 8 << 10, Limits: Limits{Continuations: 10000}}, nil)
			bounded(t, s, 5, 1<<20, func() {
				r.hbuf.Reset()
				for range 1000 {
					r.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("€", 800), Sensitive: true})
				}
				r.sendBlock(1, r.hbuf.Bytes(), 16384)
			})
			r.wantEnd(s, EnhanceYourCalm)
		})
	})
}

// TestLongHeaderField: a field longer than what is gathered costs its stream alone, too, and the table stays in step, which a
// longer entry empties. What is longer than a block may be, or cannot be decoded, costs the connection.
func TestLongHeaderField(t *testing.T) {
	n, v := strings.Repeat("n", 40_000), strings.Repeat("v", 40_000)
	coded := hpack.AppendHuffmanString(appendLength([]byte{0x40, 1, 'x'}, 0x80, 62_500), strings.Repeat("&", 62_500))
	cfg := Config{MaxHeaderList: 8 << 10, Limits: Limits{Continuations: 1 << 30}}
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for name, field := range map[string][]byte{
			"a value":                           longField(0x00, "x", v),
			"a value with an indexed name":      longString([]byte{0x0f, 0x10}, v),
			"a value that is to be entered":     longField(0x40, "x", v),
			"a sensitive value":                 longField(0x10, "x", v),
			"a name":                            longField(0x00, n, "x"),
			"a name that is to be entered":      longField(0x40, n, "x"),
			"a name and a value":                longField(0x40, n[:20_000], v[:20_000]),
			"a name and a value, long together": longField(0x40, n[:16_000], v[:16_000]),
			"Huffman-coded":                     coded,
		} {
			t.Run(name, func(t faultnet.OnKind) {
				for _, size := range []int{16384, 1013} {
					got := make(chan []Field, 1)
					r, s, _ := rawServer(t, cfg, func(s *Stream, k *call) {
						got <- slices.Clone(k.fields)
						echo(t, s.c.cfg.Pool)(s, k)
					})
					take := func() []Field {
						select {
						case f := <-got:
							return f
						case <-s.Done():
							t.Fatal(s.Err())
							return nil
						}
					}
					r.request(1, End)
					take()
					bounded(t, s, 5, 1<<20, func() {
						r.sendBlock(3, append(append(bytes.Clone(r.block(rawRequest...)), field...), longField(0x40, "x-last", "entered")...), size)
						r.wantReset(3, EnhanceYourCalm)
					})
					// The last entry, and the one before, which is gone if the long field was to be entered.
					request := []byte{0x83, 0x86, 0x04, 2, '/', 'x', 0x01, 1, 'x', 0xbe}
					r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: request, EndHeaders: true, EndStream: true})
					if f := take(); len(f) != 1 || f[0] != (Field{Name: "x-last", Value: "entered"}) {
						t.Errorf("in frames of %d bytes: %v where the table's last entry was meant", size, f)
					}
					request[len(request)-1] = 0xbf
					r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 7, BlockFragment: request, EndHeaders: true, EndStream: true})
					if field[0]&0x40 != 0 {
						r.wantEnd(s, CompressionError)
					} else if f := take(); len(f) != 1 || f[0] != (Field{Name: "content-type", Value: "application/grpc"}) {
						t.Errorf("in frames of %d bytes: %v where the entry before it was meant", size, f)
					}
				}
			})
		}
		for name, bad := range map[string]struct {
			block []byte
			code  Code
		}{
			"longer than a block":     {longField(0x00, "x", strings.Repeat("v", 1<<20)), EnhanceYourCalm},
			"cut off":                 {longField(0x00, "x", v)[:30_000], CompressionError},
			"a name without a value":  {longField(0x00, n, "")[:len(n)+5], CompressionError},
			"a name beyond the table": {longString([]byte{0x0f, 0xff, 0x01}, v), CompressionError},
			"a length without end":    {append([]byte{0x00}, bytes.Repeat([]byte{0xff}, 100_000)...), CompressionError},
			"an index without end":    {bytes.Repeat([]byte{0xff}, 100_000), CompressionError},
		} {
			t.Run(name, func(t faultnet.OnKind) {
				r, s, _ := rawServer(t, cfg, nil)
				r.sendBlock(1, bad.block, 16384)
				r.wantEnd(s, bad.code)
			})
		}
	})
}

// TestLongFieldThatFitsTheTable: a field whose code is much longer than what MaxHeaderList permits, and that fits the table decoded,
// is entered in it. The longest Huffman code, that of a line break, has 30 bits. One that does not fit empties the table.
func TestLongFieldThatFitsTheTable(t *testing.T) {
	const fits = h2hpack.TableSize - h2hpack.EntryCost - len("x")
	for _, c := range []struct {
		name   string
		length int // of the value, decoded
		known  []byte
		beyond byte
	}{
		{"the longest that fits", fits, []byte{0xbe}, 0xbf},
		{"the shortest that does not", fits + 1, nil, 0xbe},
		{"longer than what is gathered", h2hpack.MinPart, nil, 0xbe},
	} {
		t.Run(c.name, func(t *testing.T) {
			coded := (30*c.length + 7) / 8
			field := hpack.AppendHuffmanString(appendLength([]byte{0x40, 1, 'x'}, 0x80, coded), strings.Repeat("\n", c.length))
			if n := len(field) - len(appendLength([]byte{0x40, 1, 'x'}, 0x80, coded)); n != coded {
				t.Fatalf("coded in %d bytes, not %d", n, coded)
			}
			for _, block := range [][]byte{
				append(bytes.Clone(field), longField(0x00, "x", strings.Repeat("v", h2hpack.MinPart))...),
				append(longField(0x00, "x", strings.Repeat("v", h2hpack.MinPart)), field...),
			} {
				r, s, _ := rawServer(t, Config{MaxHeaderList: 1, Limits: Limits{Continuations: 1 << 30}}, nil)
				r.sendBlock(1, longField(0x40, "x-first", "1"), 16384)
				r.wantReset(1, EnhanceYourCalm)
				r.sendBlock(3, block, 1013)
				r.wantReset(3, EnhanceYourCalm)
				if c.known != nil {
					r.sendBlock(5, c.known, 16384)
					r.wantReset(5, EnhanceYourCalm)
				}
				r.sendBlock(7, []byte{c.beyond}, 16384)
				r.wantEnd(s, CompressionError)
			}
		})
	}
}

// longField is a literal with a new name, not Huffman-coded; first says of which kind.
func longField(first byte, name, value string) []byte {
	return longString(longString([]byte{first}, name), value)
}

func longString(b []byte, s string) []byte { return append(appendLength(b, 0, len(s)), s...) }

// appendLength appends the length of a string; huffman is 0x80 if it is Huffman-coded (RFC 7541 section 5.2).
func appendLength(b []byte, huffman byte, n int) []byte {
	if n < 0x7f {
		return append(b, huffman|byte(n))
	}
	return binary.AppendUvarint(append(b, huffman|0x7f), uint64(n-0x7f))
}

func TestManyFields(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, _, _ := rawServer(t, Config{Limits: Limits{Fields: 20}}, nil)
		fields := rawRequest[:len(rawRequest):len(rawRequest)]
		for range 19 {
			fields = append(fields, "x", "y")
		}
		r.headers(1, End, fields...)
		r.wait("answer", func(s seen) bool { return s.id == 1 && s.end })
		r.headers(3, End, append(fields, "x", "y")...)
		r.wantReset(3, EnhanceYourCalm)
		r.lives(5)
	})
}

// TestHeaderMemory: the header lists of all streams together are bounded; the lists
// of released streams are not counted.
func TestHeaderMemory(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		gate := make(chan struct{})
		r, s, rec := rawServer(t, Config{MaxStreams: 1000, Limits: Limits{HeaderMemory: 100_000}}, func(s *Stream, k *call) { <-gate })
		request := append(rawRequest[:len(rawRequest):len(rawRequest)], "x", strings.Repeat("y", 10_000))
		id := uint32(1)
		for range 20 {
			r.headers(id, End, request...)
			id += 2
		}
		r.wantReset(id-2, RefusedStream)
		if n := s.Streams(); n != 9 {
			t.Errorf("%d streams with lists of 10 kB, 9 fit", n)
		}
		rec.mu.Lock()
		rec.serve = echo(t, s.cfg.Pool)
		rec.mu.Unlock()
		close(gate)
		awaitStreams(t, s, 0)
		s.mu.Lock()
		left := s.headers
		s.mu.Unlock()
		if left != 0 {
			t.Errorf("%d bytes are counted and no stream is left", left)
		}
		r.lives(id)
	})
}

// TestAllHeaderMemory: the header lists of all connections of a Maker share a bound, which lists of up to 4 KiB do not count for.
func TestAllHeaderMemory(t *testing.T) {
	faultnet.NeedsTCP(t, "the connections are the test's own")
	gate := make(chan struct{})
	const list = 10_000 + 32 + 1 // and the pseudo-fields
	pool := tarntest.NewPool(t)
	m, err := Servers(Config{Pool: pool, Limits: Limits{AllHeaderMemory: 5 * (list - uncountedHeaders)}})
	if err != nil {
		t.Fatal(err)
	}
	long := append(rawRequest[:len(rawRequest):len(rawRequest)], "x", strings.Repeat("y", 10_000))
	serve := func(s *Stream, _ *call) { <-gate; s.Post(&Out{Block: testResponse, TrailerBlock: testTrailer}) }
	var (
		raws  []*raw
		conns []*Conn
	)
	for range 3 {
		a, b := tcpWiring(t)
		rec := newRecorder(t)
		rec.serve = serve
		s := m.Make(b, rec)
		over := make(chan struct{})
		go func() { defer close(over); s.Run() }()
		t.Cleanup(func() { a.Close(); <-over; rec.calls.Wait() })
		io.WriteString(a, Preface)
		r := newRaw(t, a)
		r.fr.WriteSettings()
		go r.listen()
		raws, conns = append(raws, r), append(conns, s)
	}
	held := 0
	for i, r := range raws {
		for j := range 2 {
			r.headers(uint32(2*j+1), End, long...)
		}
		r.request(5, End) // a short list is served
		refused := func() int {
			return r.count(func(s seen) bool { return s.typ == http2.FrameRSTStream && s.code == http2.ErrCodeRefusedStream })
		}
		eventually(t, "the requests", func() bool { return conns[i].Streams()+refused() == 3 }, func() any { return conns[i].Streams() })
		held += 2 - refused()
	}
	if held != 4 {
		t.Errorf("%d long lists are held, the bound is 5 without the pseudo-fields", held)
	}
	close(gate)
	for _, s := range conns {
		awaitStreams(t, s, 0)
	}
	if n := m.counters.headers.Load(); n != 0 {
		t.Errorf("%d bytes are counted and no stream is left", n)
	}
	for _, r := range raws {
		r.headers(7, End, long...)
		r.wait("answer", func(s seen) bool { return s.id == 7 && s.typ == http2.FrameHeaders && s.end })
	}
}

// TestTrickledHeaders: a header block that comes byte by byte does not take a buffer
// for each.
func TestTrickledHeaders(t *testing.T) {
	for _, size := range []int{30 << 10, 60 << 10} {
		a, b := net.Pipe()
		pool := tarntest.NewPool(t)
		rec := newExtendRecorder()
		s, err := NewServer(b, dataDropper{rec}, Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		go s.Run()
		r := newRaw(t, a)
		go r.listen()
		a.Write([]byte(Preface))
		r.fr.WriteSettings()
		r.hbuf.Reset()
		for i := 0; i < len(rawRequest); i += 2 {
			r.enc.WriteField(hpack.HeaderField{Name: rawRequest[i], Value: rawRequest[i+1]})
		}
		for r.hbuf.Len() < size {
			r.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("€", 300), Sensitive: true})
		}
		frame1 := make([]byte, frameHeaderLen)
		putFrame(frame1, frame{typ: frameHeaders, id: 1, flags: flagEndHeaders | flagEndStream, length: r.hbuf.Len()})
		before := pool.Stats()
		for _, c := range append(frame1, r.hbuf.Bytes()...) {
			if _, err := a.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		<-rec.headers
		if n := gets(pool.Stats()) - gets(before); n > 200 {
			t.Errorf("%d buffers for a header block of %d bytes", n, size)
		}
		a.Close()
		<-s.Done()
	}
}

// TestSettingsWalks: changes of the initial window cost by the streams that they
// touch, and those in one frame count once.
func TestSettingsWalks(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		gate := make(chan struct{})
		defer close(gate)
		r, s, _ := rawServer(t, Config{MaxStreams: 1000, Limits: Limits{Useless: 500}}, func(s *Stream, k *call) { <-gate })
		for i := range 1000 {
			r.request(uint32(2*i+1), End)
		}
		awaitStreams(t, s, 1000)
		many := make([]http2.Setting, maxSettings)
		for i := range many {
			many[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
		}
		r.fr.WriteSettings(many...)
		r.fr.WritePing(false, [8]byte{1})
		r.wait("the answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
		s.mu.Lock()
		for st := range s.streams.all() {
			if st.out != maxSettings-1 {
				t.Errorf("a window of %d", st.out)
				break
			}
		}
		s.mu.Unlock()
		n := r.flood(1_000_000, func(i int) error {
			return r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i % 2)})
		})
		if n == 1_000_000 {
			t.Error("the connection survived all of them")
		}
		r.wantEnd(s, EnhanceYourCalm)
		// Each frame counts like 1 + 1000/32 empty ones, so that 16 of them are answered, and 3 more each second.
		if n := r.count(func(s seen) bool { return s.typ == http2.FrameSettings && s.ack }); n > 100 {
			t.Errorf("%d changes of 1000 windows each before the end", n)
		}
	})
}

func gets(s tarn.Stats) (n uint64) {
	for _, c := range s.Classes {
		n += uint64(c.Gets)
	}
	return n
}
