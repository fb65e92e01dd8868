package h2http_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// TestHTTPTest uses net/http/httptest with one more line on either side.
func TestHTTPTest(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.Listener = throughNetwork(t, srv.Listener)
	if err := h2http.ConfigureServer(srv.Config, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
		t.Fatal(err)
	}
	srv.StartTLS()
	defer srv.Close()
	own := &http.Transport{DialContext: dialer(t), TLSClientConfig: srv.Client().Transport.(*http.Transport).TLSClientConfig}
	if err := h2http.ConfigureTransport(own, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	defer own.CloseIdleConnections()
	for name, c := range map[string]*http.Client{"its own client": srv.Client(), "h2http's": {Transport: own}} {
		resp, err := c.Get(srv.URL)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "HTTP/2.0" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestReverseProxy has httputil.ReverseProxy between this package's servers and its clients.
func TestReverseProxy(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		back := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Sum")
			n, _ := io.Copy(w, r.Body)
			w.Header().Set("Sum", fmt.Sprint(n))
		}))
		target, _ := url.Parse(back.url)
		for _, c := range clientStacks {
			if !c.own || c.tls != s.tls {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: c.make(t, new(clientSetup))}
				front := s.start(t, proxy)
				for _, n := range []int{0, 1, 5000, 300000} {
					resp, err := front.client.Post(front.url, "text/plain", strings.NewReader(text(n)))
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if string(b) != text(n) || err != nil || resp.Trailer.Get("Sum") != fmt.Sprint(n) {
						t.Errorf("%d bytes of %d, %v, trailer %v", len(b), n, err, resp.Trailer)
					}
				}
			})
		}
	})
}

// TestWebSocketTunnel echoes through an extended CONNECT (RFC 8441).
func TestWebSocketTunnel(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		done := make(chan error, 1)
		base := s
		base.own = false // configured below
		r := base.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if p := r.Header.Get(":protocol"); r.Method != http.MethodConnect || p != "websocket" || r.URL.Path != "/chat" {
				t.Errorf("%s %s %q", r.Method, r.URL, p)
			}
			w.(http.Flusher).Flush()
			p := make([]byte, 100)
			for {
				n, err := r.Body.Read(p)
				w.Write(p[:n])
				w.(http.Flusher).Flush()
				if err != nil {
					done <- err
					return
				}
			}
		}), func(srv *http.Server) {
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t), ExtendedConnect: h2.Permit}); err != nil {
				t.Fatal(err)
			}
		})
		rt := &h2http.Transport{DialContext: dialer(t), TLSClientConfig: r.client.Transport.(*http.Transport).TLSClientConfig, Config: h2http.Config{Pool: drainedPool(t)}}
		t.Cleanup(rt.CloseIdleConnections)
		pr, pw := io.Pipe()
		req, _ := http.NewRequest(http.MethodConnect, r.url+"/chat", pr)
		req.Header.Set(":protocol", "websocket")
		req.Header.Set("Sec-WebSocket-Version", "13")
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		p := make([]byte, 5)
		for _, want := range []string{"one..", "two..", "three"} {
			io.WriteString(pw, want)
			if _, err := io.ReadFull(resp.Body, p); string(p) != want || err != nil {
				t.Errorf("%q, %v", p, err)
			}
		}
		pw.Close()
		if err := <-done; err != io.EOF {
			t.Error(err)
		}
		if n, err := resp.Body.Read(p); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestExtendedConnectDenied is a server that does not offer it.
func TestExtendedConnectDenied(t *testing.T) {
	r := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("the handler was called") }))
	rt := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: drainedPool(t)}}
	t.Cleanup(rt.CloseIdleConnections)
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodConnect, r.url+"/chat", nil)
	req.Header.Set(":protocol", "websocket")
	if _, err := rt.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "does not permit") {
		t.Errorf("%v", err)
	}
}
