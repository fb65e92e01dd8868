package h2http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestDisableKeepAlives: a connection serves one request.
func TestDisableKeepAlives(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		url, conns := scripted(t, s.tls, func(int) *script { return &script{end: ok} })
		rt := s.make(t, &clientSetup{tr: http.Transport{DisableKeepAlives: true}})
		for range 3 {
			req, _ := http.NewRequest("GET", url, nil)
			mustRoundTrip(t, rt, req)
		}
		if n := conns.Load(); n != 3 {
			t.Errorf("%d connections for 3 requests", n)
		}
	})
}

// TestMaxResponseHeaderBytes: a longer header list of a response fails the request.
func TestMaxResponseHeaderBytes(t *testing.T) {
	const limit = 8 << 10
	eachClient(t, func(t *testing.T, s clientStack) {
		for _, n := range []int{limit / 2, 2 * limit} {
			url, _ := scripted(t, s.tls, func(int) *script {
				return &script{end: func(s *script, id uint32) {
					var b bytes.Buffer
					enc := hpack.NewEncoder(&b)
					enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
					enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("~", n)})
					s.do(func() {
						s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
					})
				}}
			})
			req, _ := http.NewRequest("GET", url, nil)
			resp, err := s.make(t, &clientSetup{tr: http.Transport{MaxResponseHeaderBytes: limit}}).RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != (n < limit) {
				t.Errorf("a field of %d bytes, where %d are permitted: %v", n, limit, err)
			}
		}
	})
}

// TestStrictMaxConcurrentRequests: a request waits for a stream rather than open another connection. With net/http's client
// of Go 1.26.8 none of the four requests is sent: each waits for the streams that the others have reserved.
func TestStrictMaxConcurrentRequests(t *testing.T) {
	conf := new(http.HTTP2Config)
	if !setStrict(conf) {
		return // the field is of Go 1.26
	}
	eachOwn(t, func(t *testing.T, s clientStack) {
		held, arrived := make(chan struct{}), make(chan uint32, 8)
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
		rt := s.make(t, &clientSetup{tr: http.Transport{HTTP2: conf}})
		req, _ := http.NewRequest("GET", url, nil)
		mustRoundTrip(t, rt, req)
		done := make(chan error, 4)
		for range cap(done) {
			go func() {
				resp, err := rt.RoundTrip(req.Clone(context.Background()))
				if err == nil {
					resp.Body.Close()
				}
				done <- err
			}()
		}
		<-arrived
		close(held)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestRegisterOnShutdown(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		called := make(chan struct{}, 2) // the test's cleanup calls Shutdown, too
		r := s.start(t, http.NotFoundHandler(), func(srv *http.Server) { srv.RegisterOnShutdown(func() { called <- struct{}{} }) })
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		p.transcript(1)
		p.nc.Close()
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-called
	})
}

// TestPermitProhibitedCipherSuites: over a suite that HTTP/2 prohibits a connection is refused unless the setting permits it.
func TestPermitProhibitedCipherSuites(t *testing.T) {
	const prohibited = tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
	each(t, func(t *testing.T, s stack) {
		if !s.tls {
			return
		}
		for _, permitted := range []bool{false, true} {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), func(srv *http.Server) {
				srv.HTTP2 = &http.HTTP2Config{PermitProhibitedCipherSuites: permitted}
				srv.TLSConfig.MaxVersion = tls.VersionTLS12
				srv.TLSConfig.CipherSuites = []uint16{prohibited, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
			})
			tr := r.client.Transport.(*http.Transport)
			tr.TLSClientConfig.CipherSuites = []uint16{prohibited, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}
			resp, err := r.client.Get(r.url)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != permitted {
				t.Errorf("permitted is %v: %v", permitted, err)
			}
		}
	})
}

// TestReceiveBuffers: a client can send what the settings permit, and no more, while the handler reads nothing.
func TestReceiveBuffers(t *testing.T) {
	const streams = 6
	for _, c := range []struct {
		conf               http.HTTP2Config
		stream, connection int // bytes that may be sent on one stream, and on all, at most
	}{
		{http.HTTP2Config{}, 352 << 10, streams * 352 << 10},
		{http.HTTP2Config{MaxReceiveBufferPerStream: 100_000}, 100_000, streams * 100_000},
		{http.HTTP2Config{MaxReceiveBufferPerConnection: 300_000}, 300_000, 300_000},
		{http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20}, 352 << 10, streams * 352 << 10},
		{http.HTTP2Config{MaxReceiveBufferPerConnection: 65534}, 352 << 10, streams * 352 << 10}, // ignored
	} {
		t.Run(fmt.Sprintf("stream %d, connection %d", c.conf.MaxReceiveBufferPerStream, c.conf.MaxReceiveBufferPerConnection), func(t *testing.T) {
			attacked(t, func(t *testing.T, s stack) {
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
					func(srv *http.Server) { conf := c.conf; srv.HTTP2 = &conf })
				p := r.dialPeer(t)
				p.ping()
				sent := 0
				for i := range streams {
					id := uint32(2*i + 1)
					p.request(id, more, "POST", "/")
					n := p.sendAll(id)
					if n > c.stream || i == 0 && c.connection == streams*c.stream && n != c.stream {
						t.Errorf("stream %d: %d bytes could be sent, not %d", id, n, c.stream)
					}
					sent += n
				}
				if sent > c.connection || c.connection == streams*c.stream && sent != c.connection {
					t.Errorf("%d bytes could be sent, not %d", sent, c.connection)
				}
				p.nc.Close()
			})
		})
	}
}

// TestLargestSettings: numbers beyond what HTTP/2 can express count as its largest, as in net/http, and are no error.
func TestLargestSettings(t *testing.T) {
	for _, conf := range []http.HTTP2Config{{MaxReceiveBufferPerStream: math.MaxInt}, {MaxReceiveBufferPerConnection: math.MaxInt}, {MaxConcurrentStreams: math.MaxInt},
		{MaxReadFrameSize: math.MaxInt}, {MaxEncoderHeaderTableSize: math.MaxInt}} {
		if err := h2http.ConfigureServer(&http.Server{HTTP2: &conf}, nil); err != nil {
			t.Errorf("server, %+v: %v", conf, err)
		}
		if err := h2http.ConfigureTransport(&http.Transport{HTTP2: &conf}, nil); err != nil {
			t.Errorf("client, %+v: %v", conf, err)
		}
	}
}

// sendAll sends as much as the windows permit on a stream whose handler reads nothing, and returns how much.
func (p *peer) sendAll(id uint32) (sent int) {
	for {
		p.mu.Lock()
		before := p.given[id] + p.given[0]
		n := int(min(p.initial+p.given[id]-int64(sent), initialWindow+p.given[0]-p.spent, 16<<10))
		if n > 0 {
			p.fr.WriteData(id, false, make([]byte, n))
			p.spent += int64(n)
			sent += n
		}
		p.mu.Unlock()
		if n <= 0 {
			p.ping()
			if p.room(id) == before {
				return sent
			}
		}
	}
}

// room is what has been given for a stream and for the connection.
func (p *peer) room(id uint32) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given[id] + p.given[0]
}

// TestEncoderTable: MaxEncoderHeaderTableSize above 4096 is accepted; the table takes what the peer permits, to 4096.
func TestEncoderTable(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-A", "b") }),
			func(srv *http.Server) { srv.HTTP2 = &http.HTTP2Config{MaxEncoderHeaderTableSize: 65536} })
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 65536}) // its decoder permits 4096
		for id := uint32(1); id < 9; id += 2 {
			p.request(id, end, "GET", "/")
			if got := p.transcript(id); !strings.Contains(got, "x-a=b") {
				t.Errorf("stream %d: %s", id, got)
			}
		}
	})
}

// TestShutdownOfDeafPeer: Shutdown returns with its context while a peer reads nothing and a handler writes to it.
func TestShutdownOfDeafPeer(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		wrote, ended := make(chan struct{}), make(chan struct{})
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			w.(http.Flusher).Flush()
			close(wrote)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}))
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		p.mu.Lock() // listen does not read on
		p.fr.WriteWindowUpdate(0, 1<<30)
		p.mu.Unlock()
		p.request(1, end, "GET", "/")
		<-wrote
		p.mu.Lock()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		r.Close()
		p.nc.Close()
		p.mu.Unlock()
		<-ended
	})
}

// TestKeptStrings: what a handler keeps of a request's strings is not changed by later requests, nor when the connection
// and its memory are gone, which the pool of the test overwrites.
func TestKeptStrings(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		kept := make(chan []string, 64)
		var requests []*http.Request
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			requests = append(requests, r)
			list := []string{r.Method, r.URL.Path, r.URL.RawQuery, r.RequestURI, r.Host, r.RemoteAddr}
			for _, key := range []string{"X-Long", "X-Short", "Cookie", "Accept", "User-Agent"} {
				list = append(list, r.Header.Get(key))
			}
			kept <- append(list, r.Trailer.Get("X-Trailer"))
		}))
		p := r.dialPeer(t)
		const n = 20
		for i := range n {
			id, mark := uint32(2*i+1), strings.Repeat(string(rune('a'+i)), 20)
			p.request(id, more, "POST", "/"+mark+"?"+mark, "x-long", strings.Repeat(mark, 50), "x-short", mark[:1],
				"cookie", mark+"=1", "cookie", mark+"=2", "accept", mark, "user-agent", mark, "trailer", "X-Trailer")
			p.data(id, more, mark)
			p.headers(id, end, "x-trailer", mark)
			p.transcript(id)
		}
		p.nc.Close()
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for i := range n {
			mark, got := strings.Repeat(string(rune('a'+i)), 20), <-kept
			want := []string{"POST", "/" + mark, mark, "/" + mark + "?" + mark, "example.com", got[5],
				strings.Repeat(mark, 50), mark[:1], mark + "=1; " + mark + "=2", mark, mark, mark}
			if !slices.Equal(got, want) {
				t.Errorf("request %d: %q", i, got)
			}
			if r := requests[i]; r.Header.Get("X-Long") != want[6] || r.URL.Path != want[1] || r.Trailer.Get("X-Trailer") != mark {
				t.Errorf("request %d has changed: %q %q %q", i, r.Header, r.URL, r.Trailer)
			}
		}
	})
}

// TestKeptResponses: what a caller keeps of a response is not changed by later ones, whose memory is the same.
func TestKeptResponses(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mark := r.URL.Path[1:]
			w.Header().Set("X-Long", strings.Repeat(mark, 50))
			w.Header().Set("X-Short", mark[:1])
			w.Header().Set("Trailer", "X-Trailer")
			io.WriteString(w, strings.Repeat(mark, 1000))
			w.Header().Set("X-Trailer", mark)
		}))
		rt := s.make(t, new(clientSetup))
		type kept struct {
			resp *http.Response
			body []byte
		}
		var all []kept
		mark := func(i int) string { return strings.Repeat(string(rune('a'+i)), 20) }
		for i := range 20 {
			req, _ := http.NewRequest("GET", o.url+"/"+mark(i), nil)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			resp.Body.Close()
			all = append(all, kept{resp, b})
		}
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		for i, k := range all {
			m, h := mark(i), k.resp.Header
			if h.Get("X-Long") != strings.Repeat(m, 50) || h.Get("X-Short") != m[:1] || k.resp.Trailer.Get("X-Trailer") != m || string(k.body) != strings.Repeat(m, 1000) {
				t.Errorf("response %d: %q %q, content of %q", i, h, k.resp.Trailer, k.body[:20])
			}
		}
	})
}

// TestLongestHeaderListThatIsAnnounced: MaxHeaderBytes and MaxResponseHeaderBytes above 16 MiB count as 16 MiB. Below that the peer
// is told 320 bytes more, as by net/http.
func TestLongestHeaderListThatIsAnnounced(t *testing.T) {
	const most = 16 << 20
	for set, want := range map[int]uint32{1 << 20: 1<<20 + 320, most - 321: most - 1, most: most, 1 << 30: most} {
		t.Run(fmt.Sprint("server ", set), func(t *testing.T) {
			attacked(t, func(t *testing.T, s stack) {
				r := s.start(t, http.NotFoundHandler(), func(srv *http.Server) { srv.MaxHeaderBytes = set })
				p := r.dialPeer(t)
				p.ping()
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.headerList != want {
					t.Errorf("announced are %d bytes, not %d", p.headerList, want)
				}
			})
		})
		t.Run(fmt.Sprint("client ", set), func(t *testing.T) {
			eachOwn(t, func(t *testing.T, s clientStack) {
				announced := make(chan uint32, 1)
				url := rawOrigin(t, s.tls, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
					sc := &script{fr: fr}
					fr.WriteSettings()
					for {
						f, err := fr.ReadFrame()
						if err != nil {
							return
						}
						switch f := f.(type) {
						case *http2.SettingsFrame:
							if !f.IsAck() {
								v, _ := f.Value(http2.SettingMaxHeaderListSize)
								announced <- v
							}
						case *http2.HeadersFrame:
							ok(sc, f.StreamID)
						}
					}
				})
				req, _ := http.NewRequest("GET", url, nil)
				mustRoundTrip(t, s.make(t, &clientSetup{tr: http.Transport{MaxResponseHeaderBytes: int64(set)}}), req)
				if got := <-announced; got != want {
					t.Errorf("announced are %d bytes, not %d", got, want)
				}
			})
		})
	}
}

// TestManyFields: a header list of more than 512 fields, pseudo-fields not counted, is treated as one that is too long.
func TestManyFields(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }))
		p := r.dialPeer(t)
		fields := slices.Repeat([]string{"a", "b"}, 500)
		p.request(1, end, "GET", "/", fields...)
		if got := p.transcript(1); !strings.Contains(got, ":status=204") {
			t.Errorf("500 fields: %s", clip(got))
		}
		p.request(3, end, "GET", "/", append(fields, "a", "b")...)
		if got := p.transcript(3); !strings.Contains(got, ":status=431") {
			t.Errorf("501 fields: %s", clip(got))
		}
	})
}
