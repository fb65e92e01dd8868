package h2http_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
)

// Attacks of docs/reference/h2.md, made against a handler. Package h2's tests measure the bounds; these
// show that h2http applies them, and most that other clients are served meanwhile. TestAttacks of
// bench/attack makes the others against h2http's server in a process of its own.

// attacked are the ways of serving that are attacked.
func attacked(t *testing.T, f func(t *testing.T, s stack)) {
	for _, s := range stacks {
		if s.own {
			t.Run(s.name, func(t *testing.T) { f(t, s) })
		}
	}
}

// survives checks that another client is served.
func survives(t *testing.T, r *rig) {
	t.Helper()
	resp, err := r.client.Get(r.url + "/alive")
	if err != nil {
		t.Errorf("another client is not served: %v", err)
		return
	}
	resp.Body.Close()
}

// blocked is a handler that runs until it is released or its stream has ended; /alive is
// answered at once.
type blocked struct {
	running, most atomic.Int32
	release       chan struct{}
}

func (b *blocked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/alive" {
		return
	}
	n := b.running.Add(1)
	defer b.running.Add(-1)
	for {
		most := b.most.Load()
		if n <= most || b.most.CompareAndSwap(most, n) {
			break
		}
	}
	<-b.release
}

// flood sends the frames that send writes, called until the peer closes the connection or n times. Many go in one write: a write each
// would take most of the test's time.
func (p *peer) flood(n int, send func(fr *http2.Framer, i int) error) {
	p.nc.SetWriteDeadline(time.Now().Add(20 * time.Second))
	const batch = 256
	var frames bytes.Buffer
	fr := http2.NewFramer(&frames, nil)
	for i := range n {
		if err := send(fr, i); err != nil {
			p.t.Fatal(err)
		}
		if (i+1)%batch != 0 && i+1 < n {
			continue
		}
		p.mu.Lock()
		_, err := p.nc.Write(frames.Bytes())
		p.mu.Unlock()
		if err != nil {
			return
		}
		frames.Reset()
	}
}

func (p *peer) wantGoAway(code http2.ErrCode) {
	p.t.Helper()
	p.until("GOAWAY", func() bool { return p.goAway != nil })
	if p.goAway.ErrCode != code {
		p.t.Errorf("GOAWAY of %v, not %v", p.goAway.ErrCode, code)
	}
}

// TestAttackRapidReset runs in fake time: on a busy machine a client does not send as many resets a second as make an attack.
func TestAttackRapidReset(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		synctest.Test(t, func(t *testing.T) {
			h := &blocked{release: make(chan struct{})}
			l := newPipes()
			r := s.startOn(t, l, l.dial, h, h2.Limits{Resets: 10, Useless: 1000}, func(srv *http.Server) { srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 20} })
			defer close(h.release)
			p := r.dialPeer(t)
			p.request(1, end, "GET", "/alive")
			p.transcript(1)
			p.mu.Lock()
			p.mute = true // listen does not write, so that resets alone wait for the server
			p.mu.Unlock()
			// Of requests whose handlers start before their resets are read, no reset counts; once 40 handlers run, streams are
			// refused. 1,000 refusals are free, and each 50 of the next 1,000 make reading pause; then the connection ends.
			p.nc.Write(rapidResets(3, 5000))
			p.wantGoAway(http2.ErrCodeEnhanceYourCalm)
			if n := h.most.Load(); n > 40 { // those of open streams, and as many of ended ones
				t.Errorf("%d handlers ran at once; the limit is 40", n)
			}
			survives(t, r)
		})
	})
}

// rapidResets are n requests, each followed by its reset, the first on stream id.
func rapidResets(id uint32, n int) []byte {
	var frames, block bytes.Buffer
	fr, enc := http2.NewFramer(&frames, nil), hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"},
		{Name: ":authority", Value: "example.com", Sensitive: true}} {
		enc.WriteField(f) // without the dynamic table: the block is the same each time
	}
	for range n {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		fr.WriteRSTStream(id, http2.ErrCodeCancel)
		id += 2
	}
	return frames.Bytes()
}

func TestAttackMadeYouReset(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		p := r.dialPeer(t)
		for i := range 5000 {
			id := uint32(2*i + 1)
			p.request(id, more, "POST", "/")
			p.window(id, 0) // a stream error
			p.mu.Lock()
			over := p.goAway != nil || p.err != nil
			p.mu.Unlock()
			if over {
				break
			}
		}
		p.wantGoAway(http2.ErrCodeEnhanceYourCalm)
	})
}

func TestAttackContinuationFlood(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		h := &blocked{release: make(chan struct{})}
		defer close(h.release)
		r := s.start(t, h)
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/alive")
		p.transcript(1) // no frame of the handshake's comes between those that follow
		p.mu.Lock()
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x82}})
		p.mu.Unlock()
		p.flood(10000, func(fr *http2.Framer, _ int) error { return fr.WriteContinuation(3, false, []byte{0x82}) })
		p.wantGoAway(http2.ErrCodeEnhanceYourCalm)
		survives(t, r)
	})
}

// TestAttackControlFloods looks at what the server counts: a peer that still sends when the connection is closed may not
// receive the GOAWAY.
func TestAttackControlFloods(t *testing.T) {
	const priorityUpdate http2.FrameType = 0x10 // RFC 9218 section 7.1
	floods := map[string]func(fr *http2.Framer, _ int) error{
		"PING":          func(fr *http2.Framer, _ int) error { return fr.WritePing(false, [8]byte{}) },
		"SETTINGS":      func(fr *http2.Framer, _ int) error { return fr.WriteSettings() },
		"PRIORITY":      func(fr *http2.Framer, _ int) error { return fr.WritePriority(1, http2.PriorityParam{StreamDep: 3}) },
		"WINDOW_UPDATE": func(fr *http2.Framer, _ int) error { return fr.WriteWindowUpdate(0, 1) },
		"unknown":       func(fr *http2.Framer, _ int) error { return fr.WriteRawFrame(0xbe, 0, 0, nil) },
		"empty DATA":    func(fr *http2.Framer, _ int) error { return fr.WriteData(1, false, nil) },
		"PRIORITY_UPDATE": func(fr *http2.Framer, _ int) error {
			return fr.WriteRawFrame(priorityUpdate, 0, 0, []byte("\x00\x00\x00\x01u=1"))
		},
		"acknowledgements of PING":                 func(fr *http2.Framer, _ int) error { return fr.WritePing(true, [8]byte{}) },
		"acknowledgements of SETTINGS":             func(fr *http2.Framer, _ int) error { return fr.WriteSettingsAck() },
		"GOAWAY":                                   func(fr *http2.Framer, _ int) error { return fr.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"WINDOW_UPDATE of a stream that has ended": func(fr *http2.Framer, _ int) error { return fr.WriteWindowUpdate(3, 1) },
		"RST_STREAM of a stream that has ended":    func(fr *http2.Framer, _ int) error { return fr.WriteRSTStream(3, http2.ErrCodeCancel) },
	}
	attacked(t, func(t *testing.T, s stack) {
		for name, send := range floods {
			t.Run(name, func(t *testing.T) {
				h := &blocked{release: make(chan struct{})}
				counted := make(chan string, 8)
				r := s.start(t, h, func(srv *http.Server) {
					srv.HTTP2 = &http.HTTP2Config{CountError: func(name string) {
						select {
						case counted <- name:
						default:
						}
					}}
				})
				defer close(h.release)
				p := r.dialPeer(t)
				p.request(1, more, "POST", "/")
				p.request(3, end, "GET", "/alive")
				p.wait(3, 1)
				p.flood(100000, send)
				select {
				case name := <-counted:
					if name != "conn_ENHANCE_YOUR_CALM" {
						t.Errorf("the server has counted %s", name)
					}
				case <-time.After(untilLimit):
					t.Error("the server has not ended the connection")
				}
				p.mu.Lock()
				if p.goAway != nil && p.goAway.ErrCode != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("GOAWAY of %v", p.goAway.ErrCode)
				}
				p.mu.Unlock()
				survives(t, r)
			})
		}
	})
}

// TestAttackWindows is a client that makes windows longer than 2^31−1, or sends more than they hold. It loses the stream
// where the window is a stream's, and the connection otherwise.
func TestAttackWindows(t *testing.T) {
	const longest = 1<<31 - 1
	attacked(t, func(t *testing.T, s stack) {
		for name, c := range map[string]struct {
			send       func(p *peer)
			connection bool // is lost
		}{
			"WINDOW_UPDATE of a stream":         {func(p *peer) { p.window(1, longest) }, false},
			"WINDOW_UPDATE of the connection":   {func(p *peer) { p.window(0, longest) }, true},
			"SETTINGS after a WINDOW_UPDATE":    {func(p *peer) { p.window(1, 1); p.settings(http2.SettingInitialWindowSize, longest) }, true},
			"SETTINGS of more than the longest": {func(p *peer) { p.settings(http2.SettingInitialWindowSize, longest+1) }, true},
			"DATA beyond a stream's window": {func(p *peer) {
				p.until("SETTINGS", func() bool { return p.initial > 65535 })
				for sent := int64(0); sent <= p.initial; sent += 16 << 10 {
					p.data(1, more, strings.Repeat("x", 16<<10))
				}
			}, false},
		} {
			t.Run(name, func(t *testing.T) {
				h := &blocked{release: make(chan struct{})}
				r := s.start(t, h)
				defer close(h.release)
				p := r.dialPeer(t)
				p.request(1, more, "POST", "/")
				c.send(p)
				if c.connection {
					p.wantGoAway(http2.ErrCodeFlowControl)
				} else {
					if got := p.transcript(1); got != "RST_STREAM FLOW_CONTROL_ERROR" {
						t.Error(got)
					}
					p.request(3, end, "GET", "/alive")
					p.transcript(3)
				}
				survives(t, r)
			})
		}
	})
}

// TestAttackConnectionWindow: a client that sends more than the connection's window holds, while its streams' windows have room, loses
// the connection.
func TestAttackConnectionWindow(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		h := &blocked{release: make(chan struct{})}
		r := s.start(t, h, func(srv *http.Server) { srv.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 300_000} })
		defer close(h.release)
		p := r.dialPeer(t)
		p.ping()
		id := uint32(1)
		for ; p.connRoom() > 0; id += 2 {
			p.request(id, more, "POST", "/")
			p.sendAll(id)
		}
		p.request(id, more, "POST", "/")
		p.data(id, more, "x")
		p.wantGoAway(http2.ErrCodeFlowControl)
		survives(t, r)
	})
}

// connRoom is how many bytes the connection's window holds after sendAll.
func (p *peer) connRoom() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return initialWindow + p.given[0] - p.spent
}

// TestAttackStalledReader has peers request large responses and read nothing: other streams
// of the same connection, other connections and deadlines work as usual.
func TestAttackStalledReader(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		wrote := make(chan error, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				io.WriteString(w, "yes")
				return
			}
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			_, err := w.Write(make([]byte, 8<<20))
			wrote <- err
		}))
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/") // no window is given back
		p.wait(1, 1)
		p.window(0, 1<<20) // but the connection's, for other streams
		p.request(3, end, "GET", "/alive")
		p.transcript(3)
		survives(t, r)
		if err := <-wrote; err == nil {
			t.Error("8 MiB were written to a peer that reads 64 KiB")
		}
	})
}

// TestAttackDeafSocket is a peer whose socket takes nothing.
func TestAttackDeafSocket(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		wrote := make(chan error, 8)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			_, err := w.Write(make([]byte, 64<<20))
			wrote <- err
		}))
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		p.window(0, 1<<30)
		p.mu.Lock() // listen stops at the next frame
		p.out.Reset()
		p.enc.SetMaxDynamicTableSize(0)
		p.mu.Unlock()
		for id := uint32(1); id < 8; id += 2 {
			p.request(id, end, "GET", "/")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for range 4 {
			if err := <-wrote; err == nil {
				t.Error("64 MiB were written to a peer that reads nothing")
			}
		}
		survives(t, r)
	})
}

// TestAttackSlowHeader is a client that does not send the bytes that show its protocol.
func TestAttackSlowHeader(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), func(srv *http.Server) {
				srv.ReadHeaderTimeout = 300 * time.Millisecond
				srv.ErrorLog = log.New(io.Discard, "", 0)
			})
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			io.WriteString(nc, "PRI")
			nc.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, nc); err != nil {
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Error("the connection was not closed")
				}
			}
		})
	}
}

// TestAttackSlowHeaderList is a client that does not finish a header list: in its first
// frame, or by not sending the CONTINUATION.
func TestAttackSlowHeaderList(t *testing.T) {
	block := []byte{0x82, 0x86, 0x84} // GET, http, /
	frames := map[string][]byte{
		"frame":        append([]byte{0, 0, 100, 1, 5, 0, 0, 0, 1}, block...),
		"CONTINUATION": append([]byte{0, 0, 3, 1, 1, 0, 0, 0, 1}, block...),
	}
	for _, s := range stacks {
		if !s.own {
			continue
		}
		for name, frame := range frames {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), func(srv *http.Server) {
					srv.ReadHeaderTimeout = 200 * time.Millisecond
					srv.ErrorLog = log.New(io.Discard, "", 0)
				})
				nc, err := dialTCP(t, r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				if s.tls {
					nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
				}
				io.WriteString(nc, http2.ClientPreface)
				fr := http2.NewFramer(nc, nc)
				fr.WriteSettings()
				nc.Write(frame)
				nc.SetReadDeadline(time.Now().Add(20 * time.Second))
				// On a busy machine the time may pass before the preface is looked at: then
				// the connection ends without a GOAWAY.
				if _, err := io.Copy(io.Discard, nc); err != nil {
					if ne, ok := err.(net.Error); ok && ne.Timeout() {
						t.Error("the connection was not closed")
					}
				}
			})
		}
	}
}

// TestAttackSlowBody is a client that sends its body a byte at a time: ReadTimeout
// ends that, and not the other streams. The timeout holds for the handshake and between requests, too, which may take
// long on a busy machine: then it is tried with a longer one.
func TestAttackSlowBody(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		for d := 500 * time.Millisecond; ; d *= 4 {
			failed := make(chan error, 1)
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/alive" {
					return
				}
				_, err := io.Copy(io.Discard, r.Body)
				failed <- err
			}), func(srv *http.Server) {
				srv.ReadTimeout = d
				srv.ErrorLog = log.New(io.Discard, "", 0)
			})
			p, err := r.connect(t)
			if err == nil {
				p.request(1, more, "POST", "/")
				p.data(1, more, "x")
				if p.ends(1) {
					if err := <-failed; err == nil {
						t.Error("a body without an end was read")
					}
					p.request(3, end, "GET", "/alive")
					if p.ends(3) {
						return
					}
				}
			}
			if d > lastTry {
				t.Fatalf("the connection ends before its second request is answered, with %v, too: %v", d, err)
			}
		}
	})
}

// TestAttackLeavesNothing connects, sends a request and closes, many times: no goroutine is left.
func TestAttackLeavesNothing(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), func(srv *http.Server) {
			srv.ErrorLog = log.New(io.Discard, "", 0)
		})
		before := runtime.NumGoroutine()
		for range 30 {
			p := r.dialPeer(t)
			p.request(1, more, "POST", "/")
			p.data(1, more, "x")
			p.nc.Close()
		}
		deadline := time.After(20 * time.Second)
		for runtime.NumGoroutine() > before+5 {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("%d goroutines; before it were %d", runtime.NumGoroutine(), before)
			}
		}
	})
}

// malformedRequests are what RFC 9113 sections 8.1 to 8.3 calls malformed.
var malformedRequests = []struct {
	name    string
	fields  []string
	netHTTP string // what net/http does; "": it resets the stream with PROTOCOL_ERROR and calls no handler, too
}{
	{"no method", []string{":scheme", "http", ":path", "/", ":authority", "example.com"}, ""},
	{"method that is no token", []string{":method", "G T", ":scheme", "http", ":path", "/", ":authority", "example.com"}, "handler: 200"},
	{"no scheme", []string{":method", "GET", ":path", "/", ":authority", "example.com"}, ""},
	{"no path", []string{":method", "GET", ":scheme", "http", ":authority", "example.com"}, ""},
	{"empty path", []string{":method", "GET", ":scheme", "http", ":path", "", ":authority", "example.com"}, ""},
	{"path that is a URL", pathFields("http://other.example/x"), by127("handler: 200", "")},
	{"path that is an opaque URL", pathFields("https:opaque"), by127("handler: 200", "")},
	{"path without a slash", pathFields("x"), ""},
	{"path that is a query", pathFields("?q"), ""},
	{"* other than with OPTIONS", pathFields("*"), "handler: 200"},
	{"CONNECT to a path alone", []string{":method", "CONNECT", ":path", "/"}, ""},
	{"CONNECT with a scheme", []string{":method", "CONNECT", ":scheme", "http", ":authority", "example.com:80"}, ""},
	{"CONNECT without an authority", []string{":method", "CONNECT"}, ""},
	{"method twice", []string{":method", "GET", ":method", "GET", ":scheme", "http", ":path", "/"}, ""},
	{"path twice", []string{":method", "GET", ":scheme", "http", ":path", "/", ":path", "/"}, ""},
	{"pseudo-field after others", []string{":method", "GET", ":scheme", "http", "a", "b", ":path", "/"}, ""},
	{"unknown pseudo-field", requestFields(":x", "y"), ""},
	{"response's pseudo-field", requestFields(":status", "200"), ""},
	{"upper case", requestFields("Upper", "x"), ""},
	{"connection", requestFields("connection", "close"), "400"},
	{"keep-alive", requestFields("keep-alive", "5"), "400"},
	{"proxy-connection", requestFields("proxy-connection", "x"), "400"},
	{"transfer-encoding", requestFields("transfer-encoding", "chunked"), "400"},
	{"upgrade", requestFields("upgrade", "h2c"), "400"},
	{"te", requestFields("te", "gzip"), "400"},
	{"newline in a value", requestFields("a", "b\nc"), ""},
	{"NUL in a value", requestFields("a", "b\x00c"), ""},
	{"blank in a name", requestFields("a b", "c"), ""},
	{"name that is no token", requestFields("a{", "c"), ""},
	{"empty name", requestFields("", "c"), ""},
	{"host that differs", requestFields("host", "other.example"), "handler: 200"},
	{"content-length that differs", requestFields("content-length", "0", "content-length", "1"), by127("handler: 200", "")},
	{"content-length of no number", requestFields("content-length", "x"), "handler: 200"},
	{"content-length without DATA", requestFields("content-length", "5"), by127("handler: 200", "")},
	{"CONNECT with a path", []string{":method", "CONNECT", ":path", "/", ":authority", "example.com"}, ""},
	{"blank before a value", requestFields("a", " b"), "handler: 200"},
	{"blank after a value", requestFields("a", "b "), "handler: 200"},
	{"extended CONNECT, not wanted", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "example.com"}, ""},
}

// requestFields is the header list of a request with further fields.
// pathFields are those of a GET with a :path.
func pathFields(path string) []string {
	return []string{":method", "GET", ":scheme", "http", ":path", path, ":authority", "example.com"}
}

func requestFields(extra ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "example.com"}, extra...)
}

// TestMalformedRequests sends malformed requests: with each way of serving the stream is reset, the handler is not called, and
// the connection stays open. What net/http does is compared with the table.
func TestMalformedRequests(t *testing.T) {
	const reset = "RST_STREAM PROTOCOL_ERROR"
	each(t, func(t *testing.T, s stack) {
		for _, c := range malformedRequests {
			t.Run(c.name, func(t *testing.T) {
				called := make(chan struct{}, 1)
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/alive" {
						called <- struct{}{}
					}
				}))
				p := r.dialPeer(t)
				p.headers(1, end, c.fields...)
				got := "connection ended"
				if p.ends(1) {
					got = p.transcript(1)
					if header, ok := strings.CutPrefix(got, "HEADERS :status="); ok {
						got = header[:3]
					}
					p.request(3, end, "GET", "/alive")
					p.transcript(3)
				}
				select {
				case <-called:
					got = "handler: " + got
				default:
				}
				want := reset
				if !s.own && c.netHTTP != "" {
					want = c.netHTTP
				}
				if got != want {
					t.Errorf("%s; want %s", got, want)
				}
			})
		}
	})
}
