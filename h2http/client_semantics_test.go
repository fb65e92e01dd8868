package h2http_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// clientSemantics is one fact about net/http's client: a server, what is sent to it by
// do, and so what the server and the caller see.
type clientSemantics struct {
	name             string
	setup            func(s *clientSetup)
	handler          func(n *notes, w http.ResponseWriter, r *http.Request)
	do               func(n *notes, rt http.RoundTripper, url string) // nil: GET
	netHTTP, differs string
	want             string
}

func (c *clientSemantics) run(t *testing.T, s clientStack) string {
	n := new(notes)
	server := new(notes)
	o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handler(server, w, r) }))
	setup := new(clientSetup)
	if c.setup != nil {
		c.setup(setup)
	}
	rt := s.make(t, setup)
	do := c.do
	if do == nil {
		do = get
	}
	do(n, rt, o.url)
	server.mu.Lock()
	defer server.mu.Unlock()
	out := strings.Join(append(server.list, n.list...), "\n")
	return strings.ReplaceAll(out, strings.TrimPrefix(strings.TrimPrefix(o.url, "http://"), "https://"), "HOST")
}

func TestClientSemantics(t *testing.T) {
	for _, c := range slices.Concat(clientFacts, clientFieldFacts) {
		t.Run(c.name, func(t *testing.T) {
			want := make(map[bool]string) // by tls
			for _, s := range clientStacks {
				t.Run(s.name, func(t *testing.T) {
					got := c.run(t, s)
					switch {
					case !s.own && c.differs != "":
						if got != c.netHTTP {
							t.Errorf("net/http does not do what is noted as different:\n%s", clip(got))
						}
						want[s.tls] = c.want
					case !s.own:
						want[s.tls] = got
					case got != want[s.tls]:
						t.Errorf("got\n%s\nwant\n%s", clip(got), clip(want[s.tls]))
					}
				})
			}
		})
	}
}

func get(n *notes, rt http.RoundTripper, url string) {
	req, _ := http.NewRequest("GET", url+"/", nil)
	send(n, rt, req)
}

// send sends a request and notes its response.
func send(n *notes, rt http.RoundTripper, req *http.Request) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		n.add("error: canceled=%t deadline=%t timeout=%t", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), isTimeout(err))
		return
	}
	n.add("%s %s length=%d uncompressed=%t tls=%t request=%t close=%t", resp.Proto, resp.Status, resp.ContentLength, resp.Uncompressed, resp.TLS != nil, resp.Request == req, resp.Close)
	resp.Header.Del("Date")
	n.header("header", resp.Header)
	n.header("trailer before", resp.Trailer)
	b, err := io.ReadAll(resp.Body)
	n.add("body %q %t", clip(string(b)), err == nil)
	n.header("trailer after", resp.Trailer)
	n.add("close %v", resp.Body.Close())
	_, err = resp.Body.Read(make([]byte, 1))
	n.add("read after close fails %t", err != nil)
}

func isTimeout(err error) bool {
	var ne interface{ Timeout() bool }
	return errors.As(err, &ne) && ne.Timeout()
}

func post(body func() io.Reader, change ...func(*http.Request)) func(*notes, http.RoundTripper, string) {
	return func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("POST", url+"/post", body())
		for _, f := range change {
			f(req)
		}
		send(n, rt, req)
	}
}

// plain hides the type of a reader.
type plain struct{ io.Reader }

// closeRecorder notes when a request's body is closed.
type closeRecorder struct {
	io.Reader
	closed chan struct{}
}

func (c *closeRecorder) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	if p, ok := c.Reader.(io.Closer); ok {
		return p.Close()
	}
	return nil
}

func echoBody(n *notes, w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	n.add("%s length=%d read=%d %v", r.Method, r.ContentLength, len(b), err)
	n.header("request trailer", r.Trailer)
	w.Write(b)
}

func requestDump(n *notes, w http.ResponseWriter, r *http.Request) { dump(n, r) }

var clientFacts = []clientSemantics{
	{name: "nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}},
	{name: "short", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }},
	{name: "long", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, text(1<<20)) }},
	{name: "status", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 404) }},
	{name: "unusual status", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(599) }},
	{name: "204", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }},
	{name: "304", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "9")
		w.WriteHeader(304)
	}},
	{name: "values", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["X"] = []string{"1", "2"}
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
	}},
	{name: "HEAD", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "99") },
		do: func(n *notes, rt http.RoundTripper, url string) {
			req, _ := http.NewRequest("HEAD", url, nil)
			send(n, rt, req)
		}},
	{name: "trailers", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A, X-Unset")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
	}},
	{name: "trailers only", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
		w.(http.Flusher).Flush()
	}},
	{name: "request's header", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url+"/a%2fb?x=1", nil)
		req.Header = http.Header{"X": {"1", "2"}, "Cookie": {"a=1; b=2"}, "Connection": {"keep-alive"}, "Keep-Alive": {"5"}, "lower": {"x"}, "Te": {"trailers"}}
		req.Host = "example.com"
		send(n, rt, req)
	}},
	{name: "keys in lower case", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url+"/", nil)
		for _, key := range []string{"connection", "keep-alive", "upgrade", "transfer-encoding", "proxy-connection", "host", "content-length", "user-agent"} {
			req.Header[key] = []string{"x"}
		}
		req.Header["cookie"] = []string{"a=b; c=d"}
		send(n, rt, req)
	}},
	{name: "no user agent", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url, nil)
		req.Header["User-Agent"] = nil
		send(n, rt, req)
	}},
	{name: "user agent", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("DELETE", url, nil)
		req.Header.Set("User-Agent", "test")
		send(n, rt, req)
	}},
	{name: "OPTIONS *", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("OPTIONS", url, nil)
		req.URL.Path, req.URL.Opaque = "", "*"
		send(n, rt, req)
	}},
	{name: "POST of bytes", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("hello") })},
	{name: "POST of nothing", handler: echoBody, do: post(func() io.Reader { return nil })},
	{name: "POST of NoBody", handler: echoBody, do: post(func() io.Reader { return http.NoBody })},
	{name: "POST of unknown length", handler: echoBody, do: post(func() io.Reader { return plain{strings.NewReader("hello")} })},
	{name: "POST of unknown length, empty", handler: echoBody, do: post(func() io.Reader { return plain{strings.NewReader("")} })},
	{name: "POST of 1 MiB", handler: echoBody, do: post(func() io.Reader { return strings.NewReader(text(1 << 20)) })},
	{name: "POST with length and GetBody nil", handler: echoBody, do: post(func() io.Reader { return plain{strings.NewReader("hello")} }, func(r *http.Request) { r.ContentLength = 5 })},
	{name: "body too long", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		do: post(func() io.Reader { return plain{strings.NewReader("hello")} }, func(r *http.Request) { r.ContentLength = 3 })},
	{name: "body fails", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		do: func(n *notes, rt http.RoundTripper, url string) {
			broken := errors.New("broken")
			req, _ := http.NewRequest("POST", url, io.MultiReader(strings.NewReader("x"), readFunc(func([]byte) (int, error) { return 0, broken })))
			_, err := rt.RoundTrip(req)
			n.add("%t", errors.Is(err, broken))
		}},
	{name: "request's trailers", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("hello") }, func(r *http.Request) {
		r.Trailer = http.Header{"X-A": {"1"}, "X-B": nil}
		r.Body = io.NopCloser(io.MultiReader(r.Body, readFunc(func([]byte) (int, error) {
			r.Trailer.Set("X-B", "2")
			return 0, io.EOF
		})))
	})},
	{name: "gzip", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%q", r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, "hello")
		z.Close()
	}},
	{name: "gzip disabled", setup: func(s *clientSetup) { s.tr.DisableCompression = true }, handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%q", r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "not compressed")
	}},
	{name: "gzip broken", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "not compressed")
	}},
	{name: "cancelled before", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		send(n, rt, req)
	}},
	{name: "deadline", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		send(n, rt, req)
	}},
	{name: "cancelled within the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			cancel()
			return
		}
		b := make([]byte, 5)
		_, err = io.ReadFull(resp.Body, b)
		n.add("%q %v", b, err)
		cancel()
		_, err = resp.Body.Read(b)
		n.add("canceled %t", errors.Is(err, context.Canceled))
		resp.Body.Close()
	}},
	{name: "Cancel closed before", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}, do: func(n *notes, rt http.RoundTripper, url string) {
		cancel := make(chan struct{})
		close(cancel)
		canceled(n, rt, url, cancel)
	}},
	{name: "Cancel closed and the deadline passed before", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, end := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer end()
		cancel := make(chan struct{})
		close(cancel)
		for range 20 { // either might be noticed first
			req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
			//lint:ignore SA1019 http.Client sets it
			req.Cancel = cancel
			send(n, rt, req)
		}
	}},
	{name: "Cancel closed before the header", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, do: func(n *notes, rt http.RoundTripper, url string) {
		cancel := make(chan struct{})
		time.AfterFunc(20*time.Millisecond, func() { close(cancel) })
		canceled(n, rt, url, cancel)
	}},
	{name: "Cancel closed within the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		cancel := make(chan struct{})
		req, _ := http.NewRequest("GET", url, nil)
		//lint:ignore SA1019 http.Client sets it
		req.Cancel = cancel
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		defer resp.Body.Close()
		b := make([]byte, 5)
		_, err = io.ReadFull(resp.Body, b)
		n.add("%q %v", b, err)
		close(cancel)
		_, err = resp.Body.Read(b)
		n.add("%v", err)
	}},
	{name: "Cancel closed after the end", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, do: func(n *notes, rt http.RoundTripper, url string) {
		cancel := make(chan struct{})
		canceled(n, rt, url, cancel)
		close(cancel)
	}},
	{name: "Client.Timeout before the header", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, do: func(n *notes, rt http.RoundTripper, url string) {
		timedOut(n, rt, url)
	}},
	{name: "Client.Timeout within the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, do: func(n *notes, rt http.RoundTripper, url string) { timedOut(n, rt, url) }},
	{name: "name that is not ASCII", setup: func(s *clientSetup) {
		s.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			name, port, _ := net.SplitHostPort(addr)
			if name != "xn--c1ae0ajs.xn--c1aw" {
				return nil, fmt.Errorf("%s is dialled", name)
			}
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		}
	}, handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		n.add("%s", host)
		if r.TLS != nil {
			n.add("%s", r.TLS.ServerName)
		}
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		for range 2 {
			req, _ := http.NewRequestWithContext(ctx, "GET", strings.Replace(url, "127.0.0.1", "гофер.го", 1), nil)
			send(n, rt, req)
		}
	}},
	{name: "closed early", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // by the reset
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		n.add("%v", resp.Body.Close())
	}},
	{name: "server aborts", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	{name: "server aborts within the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{name: "content length not reached", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "9")
		io.WriteString(w, "hello")
	}},
	{name: "response before the request's end", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		pr, pw := io.Pipe()
		req, _ := http.NewRequest("POST", url, pr)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		io.WriteString(pw, "late")
		pw.Close()
		b, err := io.ReadAll(resp.Body)
		n.add("%q %v", b, err)
		resp.Body.Close()
	}},
	{name: "request's body closed on failure", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, do: func(n *notes, rt http.RoundTripper, url string) {
		pr, _ := io.Pipe()
		c := &closeRecorder{pr, make(chan struct{})}
		req, _ := http.NewRequest("POST", url, c)
		_, err := rt.RoundTrip(req)
		n.add("%t", err != nil)
		<-c.closed
	}},
	{name: "response header timeout", setup: func(s *clientSetup) { s.tr.ResponseHeaderTimeout = 100 * time.Millisecond },
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{name: "100-continue", setup: func(s *clientSetup) { s.tr.ExpectContinueTimeout = time.Hour }, handler: echoBody,
		do: post(func() io.Reader { return strings.NewReader("hello") }, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })},
	{name: "100-continue that does not come", setup: func(s *clientSetup) { s.tr.ExpectContinueTimeout = 50 * time.Millisecond },
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(417) },
		do:      post(func() io.Reader { return plain{strings.NewReader("hello")} }, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })},
	{name: "bad header name", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Header["a b"] = []string{"x"} })},
	{name: "bad header value", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Header["A"] = []string{"x\n"} })},
	{name: "bad method", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Method = "A B" })},
	{name: "no host", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.URL.Host = "" })},
	{name: "no header", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Header = nil })},
	{name: "bad scheme", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.URL.Scheme = "ftp" })},
	{name: "Upgrade", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Header.Set("Upgrade", "websocket") })},
	{name: "trace", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "x")
		w.WriteHeader(103)
		w.Header().Del("Link")
		io.WriteString(w, "hello")
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		for range 2 {
			traced(n, rt, url, nil)
		}
	}},
	{name: "trace of a body", handler: echoBody, do: func(n *notes, rt http.RoundTripper, url string) {
		traced(n, rt, url, strings.NewReader("hello"))
	}},
}

// canceled makes a request with a Cancel channel.
func canceled(n *notes, rt http.RoundTripper, url string, cancel <-chan struct{}) {
	req, _ := http.NewRequest("GET", url, nil)
	//lint:ignore SA1019 http.Client sets it
	req.Cancel = cancel
	resp, err := rt.RoundTrip(req)
	if err != nil {
		n.add("error: %t", strings.Contains(err.Error(), "request canceled"))
		return
	}
	n.add("request=%t", resp.Request == req)
	b, err := io.ReadAll(resp.Body)
	n.add("%q %t", b, err != nil && strings.Contains(err.Error(), "request canceled"))
	resp.Body.Close()
}

// timedOut makes a request by a client with a Timeout.
func timedOut(n *notes, rt http.RoundTripper, url string) {
	c := &http.Client{Transport: rt, Timeout: 50 * time.Millisecond}
	resp, err := c.Get(url)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	n.add("timeout=%t deadline=%t", isTimeout(err), errors.Is(err, context.DeadlineExceeded))
}

// readFunc is a reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// traced sends a request with all hooks of httptrace that do not depend on the dialer.
func traced(n *notes, rt http.RoundTripper, url string, body io.Reader) {
	// Of the hooks for what is sent and those for what comes, either may be first.
	sent, asked, done := new(notes), 0, make(chan struct{})
	trace := &httptrace.ClientTrace{
		GetConn: func(addr string) {
			if asked++; asked == 1 { // net/http calls it twice for a connection in use that is unencrypted
				n.add("GetConn %s", addr)
			}
		},
		GotConn:              func(i httptrace.GotConnInfo) { n.add("GotConn %t", i.Reused) },
		GotFirstResponseByte: func() { n.add("GotFirstResponseByte") },
		Got100Continue:       func() { n.add("Got100Continue") },
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			n.add("Got1xxResponse %d %q", code, h["Link"])
			return nil
		},
		WroteHeaders:    func() { sent.add("WroteHeaders") },
		Wait100Continue: func() { sent.add("Wait100Continue") },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			sent.add("WroteRequest %v", i.Err)
			close(done)
		},
	}
	method := "GET"
	if body != nil {
		method = "POST"
	}
	req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), method, url+"/", body)
	send(n, rt, req)
	<-done
	n.list = append(n.list, sent.list...)
}

// rawOrigin accepts connections and has serve handle HTTP/2 on each, frame by frame,
// after the handshake.
func rawOrigin(t *testing.T, overTLS bool, serve func(i int, nc io.ReadWriteCloser, fr *http2.Framer)) string {
	t.Helper()
	l := listen(t, overTLS)
	t.Cleanup(func() { l.Close() })
	go func() {
		for i := 0; ; i++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				if c, ok := nc.(*tls.Conn); ok {
					c.Handshake()
				}
				preface := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(nc, preface); err != nil {
					return
				}
				serve(i, nc, http2.NewFramer(nc, nc))
			}()
		}
	}()
	if overTLS {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}
