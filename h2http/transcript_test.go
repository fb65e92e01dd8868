package h2http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the client's side of a connection, frame by frame, which notes what the
// server sends on each stream.
type peer struct {
	t   testing.TB
	nc  net.Conn
	fr  *http2.Framer
	enc *hpack.Encoder
	out bytes.Buffer

	mu      sync.Mutex
	changed *sync.Cond
	streams map[uint32]*record
	goAway  *http2.GoAwayFrame
	pongs   int  // PINGs that were answered
	mute    bool // the server's PINGs are not answered

	initial    int64            // the server's window for a stream
	headerList uint32           // the server's SETTINGS_MAX_HEADER_LIST_SIZE; 0: none
	given      map[uint32]int64 // by WINDOW_UPDATE
	spent      int64            // of the connection's window, by sendAll
	err        error            // why reading ended
}

// record is what came on one stream.
type record struct {
	events []string
	data   int
	ended  bool // END_STREAM or RST_STREAM
}

// dialPeer connects to r and exchanges SETTINGS.
func (r *rig) dialPeer(t testing.TB, settings ...http2.Setting) *peer {
	t.Helper()
	p, err := r.connect(t, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// connect is dialPeer for a server that may end the connection at any time.
func (r *rig) connect(t testing.TB, settings ...http2.Setting) (*peer, error) {
	t.Helper()
	var nc net.Conn
	var err error
	if r.dial != nil {
		nc, err = r.dial(context.Background(), "tcp", r.addr)
	} else {
		nc, err = dialTCP(t, r.addr)
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.url, "https:") {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	t.Cleanup(func() { nc.Close() })
	p := &peer{t: t, nc: nc, fr: http2.NewFramer(nc, nc), streams: make(map[uint32]*record), initial: initialWindow, given: make(map[uint32]int64)}
	p.changed = sync.NewCond(&p.mu)
	p.fr.AllowIllegalWrites, p.fr.AllowIllegalReads = true, true
	p.fr.SetMaxReadFrameSize(1 << 24)
	p.enc = hpack.NewEncoder(&p.out)
	io.WriteString(nc, http2.ClientPreface)
	if err := p.fr.WriteSettings(settings...); err != nil {
		return nil, err
	}
	go p.listen()
	return p, nil
}

func (p *peer) listen() {
	dec := hpack.NewDecoder(4096, nil)
	var block []byte
	last := false // the header list ends the stream
	for {
		f, err := p.fr.ReadFrame()
		p.mu.Lock()
		if err != nil {
			p.err = err
			p.changed.Broadcast()
			p.mu.Unlock()
			return
		}
		s := p.streams[f.Header().StreamID]
		if s == nil {
			s = new(record)
			p.streams[f.Header().StreamID] = s
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			block, last = append(block[:0], f.HeaderBlockFragment()...), f.StreamEnded()
			if f.HeadersEnded() {
				s.headers(dec, block)
				s.ended = s.ended || last
			}
		case *http2.ContinuationFrame:
			block = append(block, f.HeaderBlockFragment()...)
			if f.HeadersEnded() {
				s.headers(dec, block)
				s.ended = s.ended || last
			}
		case *http2.DataFrame:
			if n := len(f.Data()); n > 0 {
				s.data += n
				if last := len(s.events) - 1; last >= 0 && strings.HasPrefix(s.events[last], "DATA ") {
					s.events[last] += string(f.Data())
				} else {
					s.events = append(s.events, "DATA "+string(f.Data()))
				}
			}
			s.ended = s.ended || f.StreamEnded()
		case *http2.RSTStreamFrame:
			if !s.ended { // after the end it only asks the client to stop sending
				s.events = append(s.events, "RST_STREAM "+f.ErrCode.String())
			}
			s.ended = true
		case *http2.GoAwayFrame:
			p.goAway = &http2.GoAwayFrame{LastStreamID: f.LastStreamID, ErrCode: f.ErrCode}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
					p.initial = int64(v)
				}
				if v, ok := f.Value(http2.SettingMaxHeaderListSize); ok {
					p.headerList = v
				}
				p.fr.WriteSettingsAck()
			}
		case *http2.WindowUpdateFrame:
			p.given[f.StreamID] += int64(f.Increment)
		case *http2.PingFrame:
			if f.IsAck() {
				p.pongs++
			} else if !p.mute {
				p.fr.WritePing(true, f.Data)
			}
		}
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// headers notes a header list, sorted, without what differs from run to run.
func (s *record) headers(dec *hpack.Decoder, block []byte) {
	fields, err := dec.DecodeFull(block)
	if err != nil {
		s.events = append(s.events, "HEADERS that cannot be decoded: "+err.Error())
		return
	}
	var list []string
	for _, f := range fields {
		if f.Name == "date" && len(f.Value) == len("Mon, 02 Jan 2006 15:04:05 GMT") {
			f.Value = "…"
		}
		list = append(list, f.Name+"="+f.Value)
	}
	slices.SortStableFunc(list, func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, '=')], b[:strings.IndexByte(b, '=')])
	})
	s.events = append(s.events, "HEADERS "+strings.Join(list, " "))
}

// initialWindow is what the windows of a connection and of its streams hold at first (RFC 9113 section 6.9.2).
const initialWindow = 65535

// untilLimit is how long until waits.
const untilLimit = 20 * time.Second

// lastTry ends the tests that try longer and longer timeouts of a server, each four times the one before: a try with more
// than this is the last. Its timeout is then at most 16 s, which passes before until gives up.
const lastTry = untilLimit / 5

// until waits until done is true of what came; it fails the test after untilLimit.
func (p *peer) until(what string, done func() bool) {
	p.t.Helper()
	timer := time.AfterFunc(untilLimit, func() {
		p.mu.Lock()
		p.err = fmt.Errorf("waited too long")
		p.changed.Broadcast()
		p.mu.Unlock()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !done() {
		if p.err != nil {
			p.t.Fatalf("no %s: %v", what, p.err)
		}
		p.changed.Wait()
	}
}

// transcript waits until the stream has ended and returns what came on it.
func (p *peer) transcript(id uint32) string {
	p.t.Helper()
	p.until(fmt.Sprintf("end of stream %d", id), func() bool { s := p.streams[id]; return s != nil && s.ended })
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.streams[id].events, "\n")
}

// ends waits until the stream or the connection has ended, and reports whether the stream has.
func (p *peer) ends(id uint32) (ended bool) {
	p.t.Helper()
	p.until(fmt.Sprintf("end of stream %d or of the connection", id), func() bool {
		s := p.streams[id]
		ended = s != nil && s.ended
		return ended || p.err != nil
	})
	return ended
}

// wait waits until n events have come on the stream.
func (p *peer) wait(id uint32, n int) {
	p.t.Helper()
	p.until(fmt.Sprintf("event %d of stream %d", n, id), func() bool { s := p.streams[id]; return s != nil && len(s.events) >= n })
}

// ended is whether a frame ends its direction.
type ended uint8

const (
	more ended = iota
	end
)

// headers sends a header list; fields alternate names and values.
func (p *peer) headers(id uint32, e ended, fields ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.out.Bytes(), EndHeaders: true, EndStream: e == end})
}

// request sends the header of a request for path.
func (p *peer) request(id uint32, e ended, method, path string, fields ...string) {
	p.headers(id, e, append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "example.com"}, fields...)...)
}

// data sends content.
func (p *peer) data(id uint32, e ended, s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fr.WriteData(id, e == end, []byte(s))
}

// reset resets a stream.
func (p *peer) reset(id uint32, code http2.ErrCode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fr.WriteRSTStream(id, code)
}

// window gives window back.
func (p *peer) window(id uint32, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fr.WriteWindowUpdate(id, uint32(n))
}

// settings sends one setting.
func (p *peer) settings(id http2.SettingID, v uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fr.WriteSettings(http2.Setting{ID: id, Val: v})
}
