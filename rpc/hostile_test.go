package rpc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// rawPeer sends and receives single HTTP/2 frames, valid or not.
type rawPeer struct {
	t    testing.TB
	nc   net.Conn
	fr   *http2.Framer
	enc  *hpack.Encoder
	buf  bytes.Buffer
	next uint32
}

func newRawPeer(t testing.TB, nc net.Conn) *rawPeer {
	p := &rawPeer{t: t, nc: nc, fr: http2.NewFramer(nc, nc), next: 1}
	p.enc = hpack.NewEncoder(&p.buf)
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { nc.Close() })
	return p
}

// rawClient connects to a server and sends the preface.
func rawClient(t testing.TB, addr string) *rawPeer {
	t.Helper()
	nc, err := dialOver(t)(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, nc)
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := p.fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *rawPeer) block(kv ...string) []byte {
	p.buf.Reset()
	for i := 0; i < len(kv); i += 2 {
		if err := p.enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]}); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.buf.Bytes()
}

// open sends a request's header with fields changed or added by kv.
func (p *rawPeer) open(end bool, kv ...string) uint32 {
	p.t.Helper()
	fields := []string{":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/UnaryCall",
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	for i := 0; i < len(kv); i += 2 {
		found := false
		for j := 0; j < len(fields); j += 2 {
			if fields[j] == kv[i] {
				fields[j+1], found = kv[i+1], true
			}
		}
		if !found {
			fields = append(fields, kv[i], kv[i+1])
		}
	}
	id := p.next
	p.next += 2
	if err := p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(fields...), EndHeaders: true, EndStream: end}); err != nil {
		p.t.Fatal(err)
	}
	return id
}

// answer reads frames until stream id has ended, and returns its fields.
func (p *rawPeer) answer(id uint32) map[string]string {
	p.t.Helper()
	got := map[string]string{}
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.t.Fatalf("waiting for the answer on stream %d: %v", id, err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID != id {
				continue
			}
			for _, hf := range f.Fields {
				got[hf.Name] = hf.Value
			}
			if f.StreamEnded() {
				return got
			}
		case *http2.DataFrame:
			if f.StreamID == id && f.StreamEnded() {
				return got
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				got["rst"] = f.ErrCode.String()
				return got
			}
		case *http2.GoAwayFrame:
			got["goaway"] = f.ErrCode.String()
			return got
		}
	}
}

// roundTrip returns when the other side has processed the frames so far; false: it has ended the connection.
func (p *rawPeer) roundTrip() bool {
	if p.fr.WritePing(false, [8]byte{}) != nil {
		return false
	}
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return false
		}
		if f, ok := f.(*http2.PingFrame); ok && f.IsAck() {
			return true
		}
	}
}

func prefixed(flag byte, body []byte) []byte {
	p := make([]byte, 5, 5+len(body))
	p[0] = flag
	binary.BigEndian.PutUint32(p[1:], uint32(len(body)))
	return append(p, body...)
}

func TestHostileRequests(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		_, addr := startTarn(t, &testService{})
		empty := prefixed(0, nil)
		for _, c := range []struct {
			name string
			kv   []string
			body []byte
			want map[string]string
		}{
			{"content type", []string{"content-type", "text/html"}, nil, map[string]string{":status": "415"}},
			{"method", []string{":method", "PUT"}, nil, map[string]string{":status": "405"}},
			{"path without slash", []string{":path", "x/y"}, nil, nil},
			{"path without method", []string{":path", "/x"}, nil, map[string]string{":status": "200", "grpc-status": "12"}},
			{"timeout", []string{"grpc-timeout", "1s"}, empty, map[string]string{":status": "400", "grpc-status": "13"}},
			{"long timeout", []string{"grpc-timeout", "123456789S"}, empty, map[string]string{":status": "400", "grpc-status": "13"}},
			{"no timeout at all", []string{"grpc-timeout", ""}, empty, map[string]string{":status": "400", "grpc-status": "13"}},
			{"timeout of zero", []string{"grpc-timeout", "0S"}, empty, map[string]string{":status": "200", "grpc-status": "4"}},
			{"huge timeout", []string{"grpc-timeout", "99999999H"}, empty, map[string]string{"grpc-status": "0"}},
			{"binary metadata", []string{"x-bin", "*"}, empty, map[string]string{":status": "400", "grpc-status": "13"}},
			{"encoding", []string{"grpc-encoding", "nobody"}, empty, map[string]string{"grpc-status": "12", "grpc-accept-encoding": "gzip"}},
			{"identity", []string{"grpc-encoding", "identity"}, empty, map[string]string{"grpc-status": "0"}},
			{"compressed without encoding", nil, prefixed(1, []byte{1}), map[string]string{"grpc-status": "13"}},
			{"flag", nil, prefixed(6, nil), map[string]string{"grpc-status": "13"}},
			{"no message", nil, []byte{}, map[string]string{"grpc-status": "13"}},
			{"half a message", nil, prefixed(0, make([]byte, 10))[:9], map[string]string{"grpc-status": "13"}},
			{"not protobuf", nil, prefixed(0, []byte{255, 255}), map[string]string{"grpc-status": "13"}},
			{"too large", nil, prefixed(0, make([]byte, 1<<23))[:100], map[string]string{"grpc-status": "8"}},
			{"broken gzip", []string{"grpc-encoding", "gzip"}, prefixed(1, []byte("no gzip at all")), map[string]string{"grpc-status": "13"}},
		} {
			t.Run(c.name, func(t faultnet.OnKind) {
				p := rawClient(t, addr)
				id := p.open(c.body == nil, c.kv...)
				if c.body != nil {
					if err := p.fr.WriteData(id, true, c.body); err != nil {
						t.Fatal(err)
					}
				}
				got := p.answer(id)
				for k, v := range c.want {
					if got[k] != v {
						t.Errorf("%s is %q, want %q (all: %v)", k, got[k], v, got)
					}
				}
				// The connection stays open, unless HTTP/2 itself was violated.
				if got["rst"] == "" && got["goaway"] == "" {
					id := p.open(false)
					p.fr.WriteData(id, true, empty)
					if got := p.answer(id); got["grpc-status"] != "0" {
						t.Errorf("the next call on the connection: %v", got)
					}
				}
			})
		}
	})
}

// TestIdleResetsAsInGRPC has a client reset streams that it never opens, as gRPC C++ does when it cancels a call whose header has not left.
// Its other calls go on, as with grpc-go.
func TestIdleResetsAsInGRPC(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		_, ours := startTarn(t, &testService{})
		_, theirs := startGRPC(t, &testService{})
		for name, addr := range map[string]string{"tarn": ours, "grpc-go": theirs} {
			p := rawClient(t, addr)
			open := p.open(false)
			for range 3 {
				p.fr.WriteRSTStream(p.next, http2.ErrCodeCancel)
				p.next += 2
				p.fr.WriteRSTStream(p.next+2, http2.ErrCodeCancel) // before another that is opened
				id := p.open(false)
				p.next += 2
				p.fr.WriteData(id, true, prefixed(0, nil))
				if got := p.answer(id); got["grpc-status"] != "0" {
					t.Fatalf("%s: a call after resets: %v", name, got)
				}
			}
			p.fr.WriteData(open, true, prefixed(0, nil))
			if got := p.answer(open); got["grpc-status"] != "0" {
				t.Errorf("%s: the call beside them: %v", name, got)
			}
		}
	})
}

// A message is small on the wire and huge when decompressed: RESOURCE_EXHAUSTED, and memory is bounded by the
// limit, not by the decompressed size.
func TestZipBomb(t *testing.T) { faultnet.EachSocket(t, zipBomb) }

func zipBomb(t faultnet.OnKind) {
	limit := 4 << 20
	if t.Kind != faultnet.TCP {
		limit = 1 << 20 // a shorter form
	}
	pool := tarntest.NewPool(t)
	_, addr := startTarn(t, &testService{}, rpc.Pool(pool), rpc.MaxRecvMsgSize(limit))
	var bomb bytes.Buffer
	zw, err := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		zw.Write(make([]byte, limit))
	}
	zw.Close()
	p := rawClient(t, addr)
	for f, err := p.fr.ReadFrame(); ; f, err = p.fr.ReadFrame() {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.(*http2.SettingsFrame); ok {
			break
		}
	}
	id := p.open(false, "grpc-encoding", "gzip")
	msg := prefixed(1, bomb.Bytes())
	for len(msg) > 0 {
		n := min(len(msg), 16384)
		if err := p.fr.WriteData(id, n == len(msg), msg[:n]); err != nil {
			t.Fatal(err)
		}
		msg = msg[n:]
	}
	if got := p.answer(id); got["grpc-status"] != "8" {
		t.Fatal(got)
	}
	if peak := pool.Stats().Peak; peak > int64(limit)*5/2 {
		t.Fatalf("%d bytes of buffers for a limit of %d", peak, limit)
	}
}

// A client begins many messages with a large declared length and ends none: the server holds the bytes
// received, and no goroutine for any of them.
func TestManyHalfMessages(t *testing.T) { faultnet.EachSocket(t, manyHalfMessages) }

func manyHalfMessages(t faultnet.OnKind) {
	pool := tarntest.NewPool(t)
	_, addr := startTarn(t, &testService{}, rpc.Pool(pool))
	p := rawClient(t, addr)
	begun := []byte{0, 0, 0x3f, 0xff, 0xff, 0} // the first byte of 4 MiB - 1
	for range 200 {
		id := p.open(false)
		if err := p.fr.WriteData(id, false, begun); err != nil {
			t.Fatal(err)
		}
	}
	id := p.open(false)
	p.fr.WriteData(id, true, prefixed(0, nil))
	if got := p.answer(id); got["grpc-status"] != "0" {
		t.Fatal(got)
	}
	if used := pool.Stats().Peak; used > 4<<20 {
		t.Fatalf("%d bytes of buffers for 200 times six bytes", used)
	}
	if n := runtime.NumGoroutine(); n > 100 {
		t.Fatalf("%d goroutines for calls that have no request yet", n)
	}
}

// TestStopsWithHalfRequests: the unary calls whose requests are incomplete are among those that Stop and GracefulStop wait for, and they end.
func TestStopsWithHalfRequests(t *testing.T) {
	for name, opts := range map[string][]rpc.ServerOption{"": nil, " and statistics": {rpc.StatsHandler(new(connStats))}} {
		for _, stop := range []string{"Stop", "the connection's end, then GracefulStop"} {
			t.Run(stop+name, func(t *testing.T) {
				s, addr := startTarn(t, &testService{}, opts...)
				p := rawClient(t, addr)
				p.open(false)
				id := p.open(false)
				p.fr.WriteData(id, true, prefixed(0, nil))
				if got := p.answer(id); got["grpc-status"] != "0" {
					t.Fatal(got)
				}
				if stop == "Stop" {
					returns(t, stop, s.Stop)
					return
				}
				p.nc.Close()
				returns(t, stop, s.GracefulStop)
			})
		}
	}
}

func TestHeaderListLimit(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		_, addr := startTarn(t, &testService{}, rpc.MaxHeaderListSize(4096))
		p := rawClient(t, addr)
		id := p.open(false, "x", strings.Repeat("y", 8192))
		got := p.answer(id)
		if got["grpc-status"] == "0" || got["rst"] == "" && got["goaway"] == "" && got[":status"] == "200" {
			t.Fatal(got)
		}
	})
}

// rawServer answers each request of one connection with f.
func rawServer(t testing.TB, f func(p *rawPeer, id uint32)) string {
	t.Helper()
	return rawServerOf(t, func(p *rawPeer, h *http2.MetaHeadersFrame) { f(p, h.StreamID) })
}

// rawServerOf is rawServer whose f gets the request's header.
func rawServerOf(t testing.TB, f func(p *rawPeer, h *http2.MetaHeadersFrame)) string {
	t.Helper()
	lis := listen(t)
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			if o, ok := nc.(faultnet.Hidden); ok {
				nc = o.Conn // for CloseWrite: the other side is under test
			}
			go func() {
				p := newRawPeer(t, nc)
				if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				p.fr.WriteSettings()
				for {
					fr, err := p.fr.ReadFrame()
					if err != nil {
						return
					}
					if h, ok := fr.(*http2.MetaHeadersFrame); ok {
						f(p, h)
					}
				}
			}()
		}
	}()
	return lis.Addr().String()
}

// readRequest reads until the request on stream id has ended. For a server's f, which runs on the goroutine that reads.
func (p *rawPeer) readRequest(id uint32) {
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return
		}
		if d, ok := f.(*http2.DataFrame); ok && d.StreamID == id && d.StreamEnded() {
			return
		}
	}
}

func TestHostileResponses(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		good := []string{":status", "200", "content-type", "application/grpc"}
		headers := func(p *rawPeer, id uint32, end bool, kv ...string) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(kv...), EndHeaders: true, EndStream: end})
		}
		reply, err := proto.Marshal(&pb.SimpleResponse{Payload: payload(3)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			f    func(p *rawPeer, id uint32)
			want codes.Code
		}{
			{"http status", func(p *rawPeer, id uint32) { headers(p, id, true, ":status", "503") }, codes.Unavailable},
			{"html", func(p *rawPeer, id uint32) {
				headers(p, id, false, ":status", "401", "content-type", "text/html")
				p.fr.WriteData(id, true, []byte("<html>"))
			}, codes.Unauthenticated},
			{"informational first", func(p *rawPeer, id uint32) {
				headers(p, id, false, ":status", "103")
				headers(p, id, false, good...)
				p.fr.WriteData(id, false, prefixed(0, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.OK},
			{"informational without end", func(p *rawPeer, id uint32) {
				for range 3000 { // 42 bytes each: more than a header list may have
					headers(p, id, false, ":status", "103")
				}
				headers(p, id, false, good...)
				p.fr.WriteData(id, false, prefixed(0, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"trailers only", func(p *rawPeer, id uint32) {
				headers(p, id, true, append(good, "grpc-status", "5", "grpc-message", "%zz%41")...)
			}, codes.NotFound},
			{"no grpc-status", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				headers(p, id, true, "x", "y")
			}, codes.Unknown},
			{"odd grpc-status", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				headers(p, id, true, "grpc-status", "fine")
			}, codes.Unknown},
			{"no trailers", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				p.fr.WriteData(id, true, prefixed(0, reply))
			}, codes.Internal},
			{"no message", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"two messages", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				p.fr.WriteData(id, false, append(prefixed(0, reply), prefixed(0, reply)...))
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"compressed without encoding", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				p.fr.WriteData(id, false, prefixed(1, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"unknown encoding", func(p *rawPeer, id uint32) {
				headers(p, id, false, append(good, "grpc-encoding", "nobody")...)
				p.fr.WriteData(id, false, prefixed(1, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"unknown encoding, not used", func(p *rawPeer, id uint32) {
				headers(p, id, false, append(good, "grpc-encoding", "nobody")...)
				p.fr.WriteData(id, false, prefixed(0, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.OK},
			{"details not base64", func(p *rawPeer, id uint32) {
				headers(p, id, true, append(good, "grpc-status", "5", "grpc-status-details-bin", "*")...)
			}, codes.Internal},
			{"details of another code", func(p *rawPeer, id uint32) {
				headers(p, id, true, append(good, "grpc-status", "5", "grpc-status-details-bin", "CAM")...)
			}, codes.Internal},
			{"details that are no status", func(p *rawPeer, id uint32) {
				headers(p, id, true, append(good, "grpc-status", "5", "grpc-status-details-bin", "////")...)
			}, codes.NotFound},
			{"metadata not base64", func(p *rawPeer, id uint32) {
				headers(p, id, false, append(good, "x-bin", "*")...)
				p.fr.WriteData(id, false, prefixed(0, reply))
				headers(p, id, true, "grpc-status", "0")
			}, codes.Internal},
			{"too large", func(p *rawPeer, id uint32) {
				headers(p, id, false, good...)
				p.fr.WriteData(id, false, []byte{0, 255, 255, 255, 255})
			}, codes.ResourceExhausted},
			{"data first", func(p *rawPeer, id uint32) { p.fr.WriteData(id, true, prefixed(0, reply)) }, codes.Internal},
			{"reset cancel", func(p *rawPeer, id uint32) { p.fr.WriteRSTStream(id, http2.ErrCodeCancel) }, codes.Canceled},
			{"reset calm", func(p *rawPeer, id uint32) { p.fr.WriteRSTStream(id, http2.ErrCodeEnhanceYourCalm) }, codes.ResourceExhausted},
			{"reset security", func(p *rawPeer, id uint32) { p.fr.WriteRSTStream(id, http2.ErrCodeInadequateSecurity) }, codes.PermissionDenied},
			{"reset protocol", func(p *rawPeer, id uint32) { p.fr.WriteRSTStream(id, http2.ErrCodeProtocol) }, codes.Internal},
			{"refused for ever", func(p *rawPeer, id uint32) { p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, codes.Unavailable},
		} {
			t.Run(c.name, func(t faultnet.OnKind) {
				cc := pb.NewTestServiceClient(dialTarn(t, rawServer(t, c.f)))
				_, err := cc.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				wantCode(t, err, c.want)
			})
		}
	})
}

// A server refuses the first stream: the call is made again without the caller noticing.
func TestRefusedOnce(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		reply, _ := proto.Marshal(&pb.SimpleResponse{})
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			if id == 1 {
				p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
				return
			}
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true,
				BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
			p.fr.WriteData(id, false, prefixed(0, reply))
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true, BlockFragment: p.block("grpc-status", "0")})
		})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRefusalWithoutAWindow: a client whose window does not cover the text of a refusal gets the status without it.
func TestRefusalWithoutAWindow(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	p := rawClient(t, addr)
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if got := p.answer(p.open(true, ":method", "PUT")); got[":status"] != "405" {
		t.Errorf("answered with %v", got)
	}
}
