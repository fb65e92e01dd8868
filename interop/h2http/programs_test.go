package h2http

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/handlers"
	"github.com/gorilla/websocket"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// site is a program of common parts: a router, its middlewares, files,
// metrics, profiles, uploads, streams, proxies.
func site(t *testing.T) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, middleware.StripSlashes, middleware.GetHead)
	quiet := log.New(io.Discard, "", 0)
	r.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s, by %s", chi.URLParam(r, "name"), r.Method)
	})
	r.Get("/panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.Get("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hello/you?a=b", http.StatusFound) })
	r.Get("/cookies", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		fmt.Fprint(w, r.CookiesNamed("x"), r.Header["Cookie"])
	})
	r.With(middleware.BasicAuth("realm", map[string]string{"user": "secret"})).Get("/secret", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in") })
	r.With(middleware.Compress(5)).Get("/compressed", long)
	r.Method("GET", "/gzhttp", gzhttp.GzipHandler(http.HandlerFunc(long)))
	r.Method("GET", "/handlers-gzip", handlers.CompressHandler(handlers.CombinedLoggingHandler(io.Discard, http.HandlerFunc(long))))
	r.Method("GET", "/timeout", http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), 50*time.Millisecond, "too late"))
	r.With(middleware.Timeout(50*time.Millisecond)).Get("/chi-timeout", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r.With(middleware.Throttle(1)).Get("/throttled", long)
	r.Method("POST", "/limited", http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		var tooLong *http.MaxBytesError
		fmt.Fprint(w, n, errors.As(err, &tooLong))
	}), 1000))
	r.Post("/form", func(w http.ResponseWriter, r *http.Request) {
		f, head, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		b, err := io.ReadAll(f)
		fmt.Fprint(w, r.FormValue("field"), head.Filename, head.Size, len(b), err)
	})
	r.Get("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "id: %d\ndata: event\n\n", i)
			http.NewResponseController(w).Flush()
		}
	})
	polled := make(chan string, 1)
	r.Get("/poll", func(w http.ResponseWriter, r *http.Request) {
		select {
		case s := <-polled:
			io.WriteString(w, s)
		case <-r.Context().Done():
		}
	})
	r.Post("/poll", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		polled <- string(b)
	})
	dir := t.TempDir()
	for name, content := range map[string]string{"page.html": "<p>page</p>", "data.bin": strings.Repeat("0123456789", 20_000), "sub/index.html": "index", "empty": ""} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(path, time.Time{}, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	files := http.StripPrefix("/files", http.FileServer(http.Dir(dir)))
	r.Handle("/files/*", files)
	reg := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total"}, []string{"code", "method"})
	reg.MustRegister(requests)
	// A short response leaves when the handler has returned, so that it is counted by then.
	r.Handle("/counted", promhttp.InstrumentHandlerCounter(requests, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "counted")
	})))
	r.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	r.Handle("/debug/pprof/goroutine", pprof.Handler("goroutine"))
	upgrader := websocket.Upgrader{}
	r.Get("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has written the response
		}
		defer c.Close()
		kind, p, err := c.ReadMessage()
		if err == nil {
			c.WriteMessage(kind, p)
		}
	})
	// Two proxies in a row, to itself.
	r.Handle("/proxied/*", http.StripPrefix("/proxied", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := &url.URL{Scheme: "http", Host: r.Host}
		if r.TLS != nil {
			target.Scheme = "https"
		}
		(&httputil.ReverseProxy{
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host },
			Transport: proxyTransport(t, r.TLS != nil), ErrorLog: quiet, FlushInterval: -1,
		}).ServeHTTP(w, r)
	})))
	return r
}

// proxyTransport is net/http's client for one request.
func proxyTransport(t *testing.T, overTLS bool) *http.Transport {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols), DisableKeepAlives: true}
	tr.Protocols.SetHTTP2(overTLS)
	tr.Protocols.SetUnencryptedHTTP2(!overTLS)
	return tr
}

func long(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("ETag", `"tag"`)
	for range 200 {
		io.WriteString(w, "a line that is compressed well, of which there are many\n")
	}
}

// visits are the requests that are made of the site.
func visits() []*http.Request {
	var all []*http.Request
	add := func(method, path, body string, header ...string) {
		req, err := http.NewRequest(method, "http://site"+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		if body == "" {
			req.Body, req.GetBody, req.ContentLength = nil, nil, 0
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		all = append(all, req)
	}
	for _, path := range []string{"/hello/world", "/hello/a%20b", "/hello/world/", "/nowhere", "/panics", "/redirect", "/secret", "/compressed", "/gzhttp",
		"/handlers-gzip", "/timeout", "/chi-timeout", "/throttled", "/events", "/files/page.html", "/files/data.bin", "/files/sub/", "/files/sub", "/files/",
		"/files/empty", "/files/none", "/counted", "/metrics", "/debug/pprof/cmdline", "/proxied/hello/world", "/proxied/events", "/proxied/compressed",
		"/proxied/files/data.bin", "/proxied/proxied/hello/twice", "/proxied/nowhere", "/socket"} {
		add("GET", path, "")
		add("GET", path, "", "Accept-Encoding", "gzip")
		if path != "/panics" {
			add("HEAD", path, "")
		}
	}
	add("GET", "/cookies", "", "Cookie", "x=1; y=2", "Cookie", "x=3")
	add("GET", "/secret", "", "Authorization", "Basic dXNlcjpzZWNyZXQ=")
	add("PUT", "/hello/world", "body")
	add("DELETE", "/hello/world", "")
	add("OPTIONS", "/hello/world", "")
	for _, h := range []string{"bytes=0-4", "bytes=5-", "bytes=-7", "bytes=0-1,5-6", "bytes=900000-", "nonsense"} {
		add("GET", "/files/data.bin", "", "Range", h)
		add("GET", "/proxied/files/data.bin", "", "Range", h)
	}
	add("GET", "/files/data.bin", "", "If-Modified-Since", "Wed, 02 Jan 2030 03:04:05 GMT")
	add("GET", "/files/data.bin", "", "If-Unmodified-Since", "Wed, 02 Jan 2002 03:04:05 GMT")
	add("POST", "/limited", strings.Repeat("x", 999))
	add("POST", "/limited", strings.Repeat("x", 100_000))
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	m.SetBoundary("boundary")
	m.WriteField("field", "value")
	f, _ := m.CreateFormFile("file", "name.txt")
	f.Write(bytes.Repeat([]byte("file"), 100_000))
	m.Close()
	add("POST", "/form", form.String(), "Content-Type", m.FormDataContentType())
	add("POST", "/proxied/form", form.String(), "Content-Type", m.FormDataContentType())
	add("POST", "/form", "nonsense", "Content-Type", m.FormDataContentType())
	add("POST", "/poll", "polled")
	add("GET", "/poll", "")
	return all
}

// TestProgramsDoNotDiffer makes the same requests of the site served by net/http's
// HTTP/2 and by this package, by either client, and compares all that the client sees.
func TestProgramsDoNotDiffer(t *testing.T) {
	both(t, func(t *testing.T, s security) {
		var want []string
		for _, stack := range []struct {
			name   string
			server func(*testing.T, security, http.Handler) string
			client func(testing.TB) *http.Client
		}{
			{"net/http", serveByNetHTTP, clientOfNetHTTP},
			{"h2http.Serve", func(t *testing.T, s security, h http.Handler) string { return serve(t, s, h, silent) }, clientOfNetHTTP},
			{"h2http.ConfigureServer", serveConfigured, clientOfNetHTTP},
			{"h2http.Transport", serveByNetHTTP, client},
		} {
			t.Run(stack.name, func(t *testing.T) {
				base, err := url.Parse(stack.server(t, s, site(t)))
				if err != nil {
					t.Fatal(err)
				}
				c := stack.client(t)
				c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				var got []string
				for _, v := range visits() {
					got = append(got, visit(t.Context(), c, v, base))
				}
				if want == nil {
					want = got
					if n := strings.Count(strings.Join(got, "\n"), "\nan error"); n != 2 { // the handlers that panic
						t.Errorf("%d of %d requests failed", n, len(got))
					}
					return
				}
				for i := range got {
					if got[i] != want[i] {
						t.Errorf("differs from net/http:\n--- net/http\n%s\n--- %s\n%s", want[i], stack.name, got[i])
					}
				}
			})
		}
	})
}

// visit makes a request and returns everything that a client can observe of its response.
func visit(ctx context.Context, c *http.Client, v *http.Request, base *url.URL) string {
	req := v.Clone(ctx)
	req.URL.Scheme, req.URL.Host, req.Host = base.Scheme, base.Host, base.Host
	if v.GetBody != nil {
		req.Body, _ = v.GetBody()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s %v\n", v.Method, v.URL.RequestURI(), v.Header)
	resp, err := c.Do(req)
	if err != nil {
		fmt.Fprintf(&out, "an error\n") // its text names the implementation
		return out.String()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" && len(body) > 0 {
		if zr, zerr := gzip.NewReader(bytes.NewReader(body)); zerr == nil {
			body, _ = io.ReadAll(zr)
		}
	}
	resp.Header.Del("Date")
	var fields []string
	for k, vs := range resp.Header {
		fields = append(fields, fmt.Sprintf("%s: %q", k, vs))
	}
	slices.Sort(fields)
	text := strings.ReplaceAll(string(body), base.Host, "HOST")
	if i := strings.Index(text, "\r\n--"); strings.HasPrefix(resp.Header.Get("Content-Type"), "multipart/byteranges") && i >= 0 {
		text = "" // the boundary is random
		fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, "Content-Type") })
	}
	fmt.Fprintf(&out, "%s %s %d %v uncompressed %v, %d bytes, error %v, trailer %v\n%s\n%.300q", resp.Proto, resp.Status, resp.ContentLength,
		resp.TransferEncoding, resp.Uncompressed, len(text), err != nil, resp.Trailer, strings.Join(fields, "\n"), text)
	return out.String()
}

func silent(srv *http.Server) { srv.ErrorLog = log.New(io.Discard, "", 0) }

func serveByNetHTTP(t *testing.T, s security, h http.Handler) string {
	return listenAndServe(t, s, &http.Server{Handler: h})
}

func serveConfigured(t *testing.T, s security, h http.Handler) string {
	srv := &http.Server{Handler: h}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
		t.Fatal(err)
	}
	return listenAndServe(t, s, srv)
}

// listenAndServe has net/http serve srv until the test ends.
func listenAndServe(t *testing.T, s security, srv *http.Server) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent(srv)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	url := "http://" + l.Addr().String()
	if s == overTLS {
		cert, _ := testcert.New(t)
		if srv.TLSConfig == nil {
			srv.TLSConfig = new(tls.Config)
		}
		srv.TLSConfig.Certificates = []tls.Certificate{cert}
		url = "https://" + l.Addr().String()
		go func() { defer close(ended); srv.ServeTLS(l, "", "") }()
	} else {
		go func() { defer close(ended); srv.Serve(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-ended
	})
	return url
}

func clientOfNetHTTP(t testing.TB) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP2(true)
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// TestWebSocketBesides: a WebSocket by HTTP/1.1's Upgrade works on a port that h2http
// serves, and gorilla's handler refuses a request over HTTP/2 as it does with net/http.
func TestWebSocketBesides(t *testing.T) {
	both(t, func(t *testing.T, s security) {
		for name, server := range map[string]func(*testing.T, security, http.Handler) string{
			"Serve":           func(t *testing.T, s security, h http.Handler) string { return serve(t, s, h, silent) },
			"ConfigureServer": serveConfigured,
		} {
			t.Run(name, func(t *testing.T) {
				d := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				c, _, err := d.Dial(strings.Replace(server(t, s, site(t)), "http", "ws", 1)+"/socket", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.WriteMessage(websocket.TextMessage, []byte("through")); err != nil {
					t.Fatal(err)
				}
				if _, p, err := c.ReadMessage(); err != nil || string(p) != "through" {
					t.Errorf("%q, %v", p, err)
				}
			})
		}
	})
}
