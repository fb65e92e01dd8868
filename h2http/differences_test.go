package h2http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// logLines is an ErrorLog whose lines are sent to a channel.
func logLines() (*log.Logger, chan string) {
	lines := make(chan string, 64)
	return log.New(lineWriter(lines), "", 0), lines
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// TestSecondWriteHeaderIsLogged: net/http's HTTP/2 ignores it silently.
func TestSecondWriteHeaderIsLogged(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		logger, lines := logLines()
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(204)
			w.WriteHeader(500)
		}), func(srv *http.Server) { srv.ErrorLog = logger })
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		p.transcript(1)
		select {
		case line := <-lines:
			if !s.own || !strings.Contains(line, "superfluous WriteHeader(500)") || !strings.Contains(line, "differences_test.go") {
				t.Errorf("logged: %s", line)
			}
		default:
			if s.own {
				t.Error("nothing was logged before the response ended")
			}
		}
	})
}

// TestPanicIsLogged: with the handler's stack, and not for http.ErrAbortHandler.
func TestPanicIsLogged(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		logger, lines := logLines()
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/abort" {
				panic(http.ErrAbortHandler)
			}
			panic("reason")
		}), func(srv *http.Server) { srv.ErrorLog = logger })
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/abort")
		p.transcript(1)
		p.request(3, end, "GET", "/")
		p.transcript(3)
		line := <-lines
		for _, want := range []string{"panic serving " + faultnet.PeerAddress(t), ": reason\n", "TestPanicIsLogged"} {
			if !strings.Contains(line, want) {
				t.Errorf("the log lacks %q: %s", want, clip(line))
			}
		}
	})
}

// TestFailedHandshakeIsLogged connects without TLS to a server that uses it.
func TestFailedHandshakeIsLogged(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		if !s.tls {
			return
		}
		logger, lines := logLines()
		r := s.start(t, http.NotFoundHandler(), func(srv *http.Server) { srv.ErrorLog = logger })
		nc, err := dialTCP(t, r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "not a TLS record")
		if line := <-lines; !strings.Contains(line, "TLS handshake error from "+faultnet.PeerAddress(t)) {
			t.Errorf("logged: %s", line)
		}
	})
}

func TestPush(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		pushed := make(chan error, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				pushed <- w.(http.Pusher).Push("/pushed", nil)
			}
		}))
		p := r.dialPeer(t)
		p.ping() // the server has taken the client's SETTINGS
		p.request(1, end, "GET", "/")
		p.transcript(1)
		if err := <-pushed; s.own != errors.Is(err, http.ErrNotSupported) || !s.own && err != nil {
			t.Errorf("Push: %v", err)
		}
	})
}

// TestReaderFromIsOffered: of net/http's servers that of HTTP/1.1 has a ResponseWriter that is an io.ReaderFrom, and that of HTTP/2 has not.
func TestReaderFromIsOffered(t *testing.T) {
	offers := func(w http.ResponseWriter, r *http.Request) {
		_, ok := w.(io.ReaderFrom)
		w.Header().Set("Offered", fmt.Sprint(r.Proto, " ", ok))
	}
	check := func(t *testing.T, client *http.Client, url, want string) {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Offered"); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	t.Run("HTTP/1.1", func(t *testing.T) {
		ts := httptest.NewServer(http.HandlerFunc(offers))
		defer ts.Close()
		check(t, ts.Client(), ts.URL, "HTTP/1.1 true")
	})
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(offers))
		check(t, r.client, r.url, fmt.Sprint("HTTP/2.0 ", s.own))
	})
}

func TestNoContentIsNoBody(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		empty := make(chan bool, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { empty <- r.Body == http.NoBody }))
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		p.transcript(1)
		if got := <-empty; got != s.own {
			t.Errorf("Body is http.NoBody: %v", got)
		}
	})
}

// TestMalformedResponses: net/http takes a response with fields that belong to a connection of HTTP/1.1, with a status that is not 100
// to 999, or with a content-length that is no number; here it is malformed (RFC 9113 section 8.1.1), and only its stream ends.
func TestMalformedResponses(t *testing.T) {
	for name, fields := range map[string][]string{
		"connection":                  {":status", "200", "connection", "keep-alive"},
		"status of four digits":       {":status", "2000"},
		"status below 100":            {":status", "099"},
		"content-length of no number": {":status", "200", "content-length", "x"},
	} {
		for _, s := range clientStacks {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				var asked atomic.Bool
				url, conns := scripted(t, s.tls, func(int) *script {
					return &script{end: func(s *script, id uint32) {
						if asked.Swap(true) {
							s.answer(id, "200")
							return
						}
						s.headers(id, end, fields...)
					}}
				})
				rt := s.make(t, new(clientSetup))
				req, _ := http.NewRequest("GET", url, nil)
				resp, err := rt.RoundTrip(req)
				var se *h2.StreamError
				switch {
				case s.own && (!errors.As(err, &se) || se.Code != h2.ProtocolError):
					t.Errorf("a malformed response: %v", err)
				case !s.own && err != nil:
					t.Errorf("net/http does not do what is noted as different: %v", err)
				}
				if err == nil {
					resp.Body.Close()
				}
				mustRoundTrip(t, rt, req)
				if n := conns.Load(); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

// TestContentOfAnotherLength: a response's content that is longer or shorter than declared fails. net/http returns the declared part of
// the DATA that goes beyond, and the trailers behind content that is too short; here a read returns neither.
func TestContentOfAnotherLength(t *testing.T) {
	for name, c := range map[string]struct {
		second         string // DATA after "123" of five bytes
		theirs, own    string
		theirsTrailers int
	}{
		"longer":  {second: "456", theirs: "12345", own: "123"},
		"shorter": {second: "4", theirs: "1234", own: "1234", theirsTrailers: 1},
	} {
		for _, s := range clientStacks {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				url, _ := scripted(t, s.tls, func(int) *script {
					return &script{end: func(s *script, id uint32) {
						s.headers(id, more, ":status", "200", "content-length", "5")
						s.do(func() {
							s.fr.WriteData(id, false, []byte("123"))
							s.fr.WriteData(id, false, []byte(c.second))
						})
						s.headers(id, end, "x-a", "1")
					}}
				})
				req, _ := http.NewRequest("GET", url, nil)
				resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				want, trailers := c.theirs, c.theirsTrailers
				if s.own {
					want, trailers = c.own, 0
				}
				if err == nil || string(b) != want || len(resp.Trailer) != trailers {
					t.Errorf("got %q, %v and %v; want %q and %d trailers", b, err, resp.Trailer, want, trailers)
				}
			})
		}
	}
}

// TestProtocolErrorFromTheServer: net/http sends the request again, although it may have been processed.
func TestProtocolErrorFromTheServer(t *testing.T) {
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) {
			var requests atomic.Int32
			url, _ := scripted(t, s.tls, func(int) *script {
				return &script{end: func(s *script, id uint32) {
					if requests.Add(1) == 1 {
						s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeProtocol) })
						return
					}
					s.answer(id, "200")
				}}
			})
			req, _ := http.NewRequest("GET", url, nil)
			resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			var se *h2.StreamError
			failed := errors.As(err, &se) && se.Code == h2.ProtocolError && se.Fault == h2.Told
			want := by127(int32(2), 1) // requests of net/http
			if n := requests.Load(); s.own && (n != 1 || !failed) || !s.own && (n != want || (err != nil) != (want == 1)) {
				t.Errorf("%d requests, %v", n, err)
			}
		})
	}
}

// TestHostInUpperCaseIsDialled: by its lower-case name in ASCII. http.Transport dials such a host without end.
func TestHostInUpperCaseIsDialled(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		origin, _ := scripted(t, s.tls, func(int) *script { return &script{end: ok} })
		u, err := url.Parse(origin)
		if err != nil {
			t.Fatal(err)
		}
		l := u.Host
		var mu sync.Mutex
		var dialled []string
		rt := s.make(t, &clientSetup{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, addr)
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, l)
		}})
		port := u.Port()
		u.Host = "BÜCHER.example:" + port
		for range 2 {
			req, _ := http.NewRequest("GET", u.String(), nil)
			mustRoundTrip(t, rt, req)
		}
		want := "xn--bcher-kva.example:" + port
		mu.Lock()
		defer mu.Unlock()
		if len(dialled) != 1 || dialled[0] != want {
			t.Errorf("dialled %q, not %q", dialled, want)
		}
	})
}

// TestGetConnOfUsedConnections: for an unencrypted connection that is in use, net/http calls GetConn twice.
func TestGetConnOfUsedConnections(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script { return &script{end: ok} })
		rt := s.make(t, new(clientSetup))
		calls := 0
		for range 2 {
			calls = 0
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GetConn: func(string) { calls++ }})
			req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
			mustRoundTrip(t, rt, req)
		}
		want := 1
		if !s.own && !s.tls {
			want = 2
		}
		if calls != want {
			t.Errorf("the second request called GetConn %d times, not %d", calls, want)
		}
	})
}

// TestClientTimeoutWhileDialling: the error of http.Client's Timeout reports a timeout, with ConfigureTransport and without it.
func TestClientTimeoutWhileDialling(t *testing.T) {
	for name, configure := range map[string]bool{"net/http": false, "ConfigureTransport": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}, Protocols: new(http.Protocols)}
				tr.Protocols.SetUnencryptedHTTP2(true)
				if configure {
					if err := h2http.ConfigureTransport(tr, nil); err != nil {
						t.Fatal(err)
					}
				}
				c := &http.Client{Transport: tr, Timeout: time.Second}
				resp, err := c.Get("http://silent/")
				if err == nil {
					resp.Body.Close()
				}
				if !isTimeout(err) {
					t.Error(err)
				}
				tr.CloseIdleConnections()
				synctest.Wait()
			})
		})
	}
}

// TestProxy sends requests through an HTTP/1.1 proxy (CONNECT), which http.Transport dials.
func TestProxy(t *testing.T) {
	origin, _ := scripted(t, true, func(int) *script { return &script{end: ok} })
	l := listenTCP(t)
	var tunnels atomic.Int32
	var all sync.WaitGroup
	defer all.Wait()
	defer l.Close()
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer in.Close()
				r, err := http.ReadRequest(bufio.NewReader(in))
				if err != nil || r.Method != "CONNECT" {
					t.Errorf("the proxy was sent %v, %v", r, err)
					return
				}
				out, err := net.Dial("tcp", r.Host)
				if err != nil {
					t.Error(err)
					return
				}
				defer out.Close()
				tunnels.Add(1)
				io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
				back := make(chan struct{})
				go func() { defer close(back); io.Copy(in, out); in.Close() }()
				io.Copy(out, in)
				out.Close()
				<-back
			})
		}
	})
	tr := &http.Transport{
		DialContext:     dialer(t),
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()}),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	for range 3 {
		req, _ := http.NewRequest("GET", origin, nil)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("served over %s", resp.Proto)
		}
	}
	if n := tunnels.Load(); n != 1 {
		t.Errorf("%d tunnels", n)
	}
}
