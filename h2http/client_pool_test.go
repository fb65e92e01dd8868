package h2http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// script answers requests on one connection: opened is called once its SETTINGS are sent, request with each request's
// stream when its header has come, and end when the request has ended.
type script struct {
	mu       sync.Mutex
	fr       *http2.Framer
	settings []http2.Setting
	opened   func(s *script)
	request  func(s *script, id uint32)
	end      func(s *script, id uint32)
	reset    func(id uint32)
	data     func(f *http2.DataFrame)
}

func (s *script) serve(fr *http2.Framer) {
	s.fr = fr
	fr.WriteSettings(s.settings...)
	if s.opened != nil {
		s.opened(s)
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.do(func() { fr.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				s.do(func() { fr.WritePing(true, f.Data) })
			}
		case *http2.HeadersFrame:
			if s.request != nil {
				s.request(s, f.StreamID)
			}
			if f.StreamEnded() && s.end != nil {
				s.end(s, f.StreamID)
			}
		case *http2.RSTStreamFrame:
			if s.reset != nil {
				s.reset(f.StreamID)
			}
		case *http2.DataFrame:
			if s.data != nil {
				s.data(f)
			}
			if f.StreamEnded() && s.end != nil {
				s.end(s, f.StreamID)
			}
		}
	}
}

func (s *script) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// answer sends a response without content.
func (s *script) answer(id uint32, status string) { s.headers(id, end, ":status", status) }

// headers sends a header list; fields alternate names and values.
func (s *script) headers(id uint32, e ended, fields ...string) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	s.do(func() {
		s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: e == end})
	})
}

func ok(s *script, id uint32) { s.answer(id, "200") }

// scripted starts an origin whose i-th connection follows script(i).
func scripted(t *testing.T, overTLS bool, script func(i int) *script) (url string, conns *atomic.Int32) {
	conns = new(atomic.Int32)
	url = rawOrigin(t, overTLS, func(i int, _ io.ReadWriteCloser, fr *http2.Framer) {
		conns.Add(1)
		script(i).serve(fr)
	})
	return url, conns
}

// eachOwn runs f for the clients of this package.
func eachOwn(t *testing.T, f func(t *testing.T, s clientStack)) {
	for _, s := range clientStacks {
		if s.own {
			t.Run(s.name, func(t *testing.T) { f(t, s) })
		}
	}
}

func mustRoundTrip(t *testing.T, rt http.RoundTripper, req *http.Request) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestRefusedStreamIsSentAgain(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		var refused atomic.Bool
		url, conns := scripted(t, s.tls, func(int) *script {
			return &script{end: func(s *script, id uint32) {
				if refused.CompareAndSwap(false, true) {
					s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) })
					return
				}
				s.answer(id, "200")
			}}
		})
		req, _ := http.NewRequest("POST", url, strings.NewReader("hello"))
		mustRoundTrip(t, s.make(t, new(clientSetup)), req)
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestRefusedBodyThatCannotBeSentAgain(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script {
			return &script{end: func(s *script, id uint32) {
				s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) })
			}}
		})
		req, _ := http.NewRequest("POST", url, plain{strings.NewReader("hello")})
		_, err := s.make(t, new(clientSetup)).RoundTrip(req)
		var se *h2.StreamError
		if !errors.As(err, &se) || se.Code != h2.RefusedStream {
			t.Errorf("%v", err)
		}
	})
}

func TestGoAwayMovesRequests(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, conns := scripted(t, s.tls, func(i int) *script {
			if i > 0 {
				return &script{end: ok}
			}
			return &script{end: func(s *script, id uint32) {
				if id == 1 {
					s.answer(id, "200")
					return
				}
				s.do(func() { s.fr.WriteGoAway(1, http2.ErrCodeNo, nil) })
			}}
		})
		rt := s.make(t, new(clientSetup))
		for range 3 {
			req, _ := http.NewRequest("POST", url, strings.NewReader("hello"))
			mustRoundTrip(t, rt, req)
		}
		if n := conns.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestGoAwayErrorIsReturned: a GOAWAY with an error that answers a connection's first request is that request's error.
func TestGoAwayErrorIsReturned(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, conns := scripted(t, s.tls, func(int) *script {
			return &script{end: func(s *script, id uint32) {
				s.do(func() { s.fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) })
			}}
		})
		req, _ := http.NewRequest("GET", url, nil)
		resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		var away *h2.GoAwayError
		if !errors.As(err, &away) || away.Code != h2.EnhanceYourCalm {
			t.Errorf("%T: %v", err, err)
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestLostConnectionIsReplaced(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		gone := make(chan struct{})
		var once sync.Once
		url := rawOrigin(t, s.tls, func(i int, nc io.ReadWriteCloser, fr *http2.Framer) {
			sc := &script{end: ok}
			if i == 0 {
				sc.end = func(s *script, id uint32) {
					s.answer(id, "200")
					s.do(func() { s.fr.WriteGoAway(id, http2.ErrCodeNo, nil) })
					nc.Close()
				}
			}
			sc.serve(fr)
			once.Do(func() { close(gone) })
		})
		rt := s.make(t, new(clientSetup))
		req, _ := http.NewRequest("GET", url, nil)
		mustRoundTrip(t, rt, req)
		<-gone
		mustRoundTrip(t, rt, req)
	})
}

func TestStreamLimitOpensAnother(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		held := make(chan struct{})
		arrived := make(chan uint32, 8)
		url, conns := scripted(t, s.tls, func(int) *script {
			return &script{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}}, end: func(s *script, id uint32) {
				if id == 1 {
					s.answer(id, "200") // so that the limit is known
					return
				}
				arrived <- id
				go func() { <-held; s.answer(id, "200") }()
			}}
		})
		rt := s.make(t, new(clientSetup))
		req, _ := http.NewRequest("GET", url, nil)
		mustRoundTrip(t, rt, req)
		done := make(chan error, 1)
		go func() {
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		<-arrived
		mustRoundTrip(t, rt, req) // the first of another connection
		if n := conns.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
		close(held)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestStreamLimitAtOnce has two requests at once compete for a connection's only stream:
// neither waits for the other.
func TestStreamLimitAtOnce(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		for range 20 {
			var mu sync.Mutex
			var last *script
			var lastID uint32
			url, _ := scripted(t, s.tls, func(int) *script {
				return &script{
					settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}},
					end: func(s *script, id uint32) {
						mu.Lock()
						defer mu.Unlock()
						switch {
						case last == nil && id == 1:
							last = s // so that the limit is known
							s.answer(id, "200")
						case lastID == 0:
							last, lastID = s, id
						default:
							last.answer(lastID, "200")
							s.answer(id, "200")
						}
					},
				}
			})
			rt := s.make(t, new(clientSetup))
			req, _ := http.NewRequest("GET", url, nil)
			mustRoundTrip(t, rt, req)
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					req, _ := http.NewRequest("GET", url, nil)
					mustRoundTrip(t, rt, req)
				})
			}
			all.Wait()
		}
	})
}

func TestStreamLimitIsWaitedFor(t *testing.T) {
	held := make(chan struct{})
	arrived := make(chan uint32, 8)
	url, conns := scripted(t, false, func(int) *script {
		return &script{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}}, end: func(s *script, id uint32) {
			if id == 1 {
				s.answer(id, "200")
				return
			}
			arrived <- id
			go func() { <-held; s.answer(id, "200") }()
		}}
	})
	rt := &h2http.Transport{DialContext: dialer(t), MaxConnsPerHost: 1, Config: h2http.Config{Pool: drainedPool(t)}}
	t.Cleanup(rt.CloseIdleConnections)
	req, _ := http.NewRequest("GET", url, nil)
	mustRoundTrip(t, rt, req)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
	}
	<-arrived
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := rt.RoundTrip(req.WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request beyond the limit ended with %v", err)
	}
	close(held)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestSilentConnectionIsReplaced: a connection whose peer answers nothing ends, and the next request takes another. It runs in fake time: on
// a busy machine any peer may be silent for as long as a test can wait.
func TestSilentConnectionIsReplaced(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	synctest.Test(t, func(t *testing.T) {
		silent := true // the first connection's peer
		rt := ownTransport(t, &clientSetup{
			tr: http.Transport{HTTP2: &http.HTTP2Config{SendPingTimeout: 20 * time.Millisecond, PingTimeout: 20 * time.Millisecond}},
			dial: func(context.Context, string, string) (net.Conn, error) {
				l, answers := faultnet.New(t, faultnet.Memory), !silent
				silent = false
				go func() {
					defer l.Server.Close()
					if _, err := io.ReadFull(l.Server, make([]byte, len(http2.ClientPreface))); err != nil {
						return
					}
					fr := http2.NewFramer(l.Server, l.Server)
					if answers {
						(&script{end: ok}).serve(fr)
						return
					}
					fr.WriteSettings()
					io.Copy(io.Discard, l.Server)
				}()
				return l.Client, nil
			},
		})
		req, _ := http.NewRequest("GET", "http://server/", nil)
		_, err := rt.RoundTrip(req)
		var ce *h2.ConnError
		if !errors.As(err, &ce) {
			t.Errorf("the request on a silent connection ended with %v", err)
		}
		mustRoundTrip(t, rt, req)
		rt.(*h2http.Transport).CloseIdleConnections()
	})
}

func TestIdleConnTimeout(t *testing.T) {
	closed := make(chan struct{})
	url := rawOrigin(t, false, func(i int, _ io.ReadWriteCloser, fr *http2.Framer) {
		(&script{end: ok}).serve(fr)
		close(closed)
	})
	rt := &h2http.Transport{DialContext: dialer(t), IdleConnTimeout: 50 * time.Millisecond, Config: h2http.Config{Pool: drainedPool(t)}}
	req, _ := http.NewRequest("GET", url, nil)
	mustRoundTrip(t, rt, req)
	<-closed
}

func TestTransportSettingsThatCannotBeHonoured(t *testing.T) {
	for name, conf := range map[string]*http.HTTP2Config{
		"MaxDecoderHeaderTableSize": {MaxDecoderHeaderTableSize: 100},
		"MaxEncoderHeaderTableSize": {MaxEncoderHeaderTableSize: 100},
	} {
		t.Run(name, func(t *testing.T) {
			if err := h2http.ConfigureTransport(&http.Transport{HTTP2: conf}, nil); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("ConfigureTransport: %v", err)
			}
			if err := h2http.ConfigureServer(&http.Server{HTTP2: conf}, nil); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("ConfigureServer: %v", err)
			}
			rt := &h2http.Transport{HTTP2: conf}
			req, _ := http.NewRequest("GET", "http://127.0.0.1:1", nil)
			if _, err := rt.RoundTrip(req); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("Transport: %v", err)
			}
		})
	}
}

func TestConfiguredTwice(t *testing.T) {
	tr := new(http.Transport)
	if err := h2http.ConfigureTransport(tr, nil); err != nil {
		t.Fatal(err)
	}
	if err := h2http.ConfigureTransport(tr, nil); err == nil {
		t.Error("an http.Transport was configured twice")
	}
	srv := new(http.Server)
	if err := h2http.ConfigureServer(srv, nil); err != nil {
		t.Fatal(err)
	}
	if err := h2http.ConfigureServer(srv, nil); err == nil {
		t.Error("an http.Server was configured twice")
	}
}

// TestResponseBeforeFault has a frame that ends the connection follow a complete response in the same
// bytes: the caller gets the response.
func TestResponseBeforeFault(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url := rawOrigin(t, s.tls, func(_ int, nc io.ReadWriteCloser, fr *http2.Framer) {
			sc := &script{request: func(s *script, id uint32) {
				var header, all bytes.Buffer
				hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				out := http2.NewFramer(&all, nil)
				out.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true})
				out.WriteData(id, true, []byte("content"))
				out.WriteRawFrame(http2.FrameContinuation, 0, id, nil) // after nothing: PROTOCOL_ERROR
				s.do(func() { nc.Write(all.Bytes()) })
			}}
			sc.serve(fr)
		})
		req, _ := http.NewRequest("GET", url, nil)
		resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != "content" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestConnectionsThatFailAtOnce: a server that ends each connection before its SETTINGS. A request fails with
// the connection's error, after one connection; it used to go on dialling.
func TestConnectionsThatFailAtOnce(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		l := listen(t, s.tls)
		defer l.Close()
		var accepted atomic.Int64
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				if c, ok := nc.(*tls.Conn); ok {
					c.Handshake()
				}
				nc.Close()
			}
		}()
		url := "http://" + l.Addr().String()
		if s.tls {
			url = "https://" + l.Addr().String()
		}
		rt := s.make(t, new(clientSetup))
		const requests = 20
		for range requests {
			req, _ := http.NewRequest("POST", url, strings.NewReader("x"))
			if resp, err := rt.RoundTrip(req); err == nil {
				resp.Body.Close()
				t.Fatal("no error")
			} else if strings.Contains(err.Error(), "no connection") {
				t.Errorf("the error does not say why: %v", err)
			}
		}
		// An http.Transport delivers a connection to its request before it keeps it. The next request may find none and begin a dial,
		// before it is given the one that has been kept late; what it dials is kept, too, up to its limit on idle connections.
		if n := accepted.Load(); n > requests+http.DefaultMaxIdleConnsPerHost {
			t.Errorf("%d connections for %d requests", n, requests)
		}
	})
}

// TestServerThatRecovers: after connections that ended before the server's SETTINGS, requests are sent on a new one. Each connection
// that an http.Transport has dialled fails one request at most; of those that requests had made at once it keeps two.
func TestServerThatRecovers(t *testing.T) {
	for name, requests := range map[string]int{"one request": 1, "20 requests": 20} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, s clientStack) {
				var up atomic.Bool
				var conns atomic.Int32
				url := rawOrigin(t, s.tls, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
					conns.Add(1)
					if up.Load() {
						(&script{end: ok}).serve(fr)
					}
				})
				rt := s.make(t, new(clientSetup))
				post := func() error {
					req, _ := http.NewRequest("POST", url, strings.NewReader("x"))
					resp, err := rt.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
					}
					return err
				}
				var down sync.WaitGroup
				for range requests {
					down.Go(func() {
						if post() == nil {
							t.Error("a request has not failed")
						}
					})
				}
				down.Wait()
				if n := int(conns.Load()); s.own && n > 2*requests {
					t.Errorf("%d connections for %d requests", n, requests)
				}
				up.Store(true)
				kept := min(requests-1, http.DefaultMaxIdleConnsPerHost)
				for i := range kept + 3 {
					if err := post(); err != nil && i >= kept {
						t.Errorf("request %d fails after the server has recovered: %v", i, err)
					}
				}
			})
		})
	}
}

// TestSettingsAfterConfigureTransport: an http.Transport's settings count as they are at its first request.
func TestSettingsAfterConfigureTransport(t *testing.T) {
	o := startOrigin(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	tr := &http.Transport{DialContext: dialer(t), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	tr.ResponseHeaderTimeout = time.Millisecond
	req, _ := http.NewRequest("GET", o.url, nil)
	resp, err := tr.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if !isTimeout(err) {
		t.Errorf("%v", err)
	}
}

// TestHostIsForgottenDuringARequest: the only connection of a host fails to be made, and another is made, while a request has yet to
// ask for one. It uses that connection, and does not make one that CloseIdleConnections would not find.
func TestHostIsForgottenDuringARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0 // at no time two
		var open atomic.Int32
		rt := &h2http.Transport{
			Config: h2http.Config{Pool: drainedPool(t)},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials == 1 {
					return nil, errors.New("refused")
				}
				a, b := net.Pipe()
				open.Add(1)
				go func() {
					defer open.Add(-1)
					defer b.Close()
					io.ReadFull(b, make([]byte, len(http2.ClientPreface)))
					(&script{end: ok}).serve(http2.NewFramer(b, b))
				}()
				return a, nil
			},
		}
		get := func(ctx context.Context) error {
			r, _ := http.NewRequestWithContext(ctx, "GET", "http://host/", nil)
			resp, err := rt.RoundTrip(r)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) {
			if get(t.Context()) == nil {
				t.Error("a request succeeded without a connection")
			}
			if err := get(t.Context()); err != nil {
				t.Error(err)
			}
		}})
		if err := get(ctx); err != nil {
			t.Error(err)
		}
		if dials != 2 {
			t.Errorf("%d dials, want one that fails and one for all requests", dials)
		}
		rt.CloseIdleConnections()
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections are open after CloseIdleConnections", n)
		}
	})
}

// TestDialThatExits: a request fails whose dial ends the goroutine, and the next one has another dial.
func TestDialThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0 // at no time two
		rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			if dials++; dials == 1 {
				runtime.Goexit()
			}
			return nil, errors.New("refused")
		}}
		for range 2 {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://host/", nil)
			if _, err := rt.RoundTrip(r); err == nil {
				t.Error("a request succeeded without a connection")
			}
		}
		if dials != 2 {
			t.Errorf("%d dials", dials)
		}
	})
}
