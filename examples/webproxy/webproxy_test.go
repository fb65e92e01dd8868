package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// serve serves h over unencrypted HTTP/2 until the test ends.
func serve(t *testing.T, h http.Handler) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
		t.Fatal(err)
	}
	go h2http.Serve(l, srv)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

func TestForwarding(t *testing.T) {
	backend := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		w.Header().Set("X-Path", r.URL.Path)
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("Sum", string(rune('0'+n%10)))
	}))
	rt := new(h2http.Transport)
	defer rt.CloseIdleConnections()
	for name, proxy := range map[string]http.Handler{
		"by reference": forwardTo(backend, rt),
		"by copy":      &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(backend) }, Transport: rt},
	} {
		t.Run(name, func(t *testing.T) {
			front := serve(t, proxy)
			client := &http.Client{Transport: rt}
			for _, size := range []int{0, 1, 5000, 1<<20 + 7} {
				want := bytes.Repeat([]byte("x"), size)
				resp, err := client.Post(front.String()+"/a/b", "text/plain", bytes.NewReader(want))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes of %d came back, %v", len(got), size, err)
				}
				if p, sum := resp.Header.Get("X-Path"), resp.Trailer.Get("Sum"); p != "/a/b" || sum != string(rune('0'+size%10)) {
					t.Errorf("path %q, trailer %q", p, sum)
				}
			}
		})
	}
}

func TestBackendThatIsNotThere(t *testing.T) {
	rt := new(h2http.Transport)
	front := serve(t, forwardTo(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, rt))
	resp, err := (&http.Client{Transport: rt}).Get(front.String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	rt.CloseIdleConnections()
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestParseBackend(t *testing.T) {
	for backend, ok := range map[string]bool{
		"http://127.0.0.1:8081": true, "https://service": true, "http://[::1]:80/": true,
		"": false, "127.0.0.1:8081": false, "localhost:8081": false, "http://": false, "ftp://service": false, "http://service/base": false, "http://service?q": false,
	} {
		if u, err := parseBackend(backend); (err == nil) != ok {
			t.Errorf("%q: %v, %v", backend, u, err)
		}
	}
}

func TestHTTP1IsRefused(t *testing.T) {
	front := serve(t, forwardTo(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, new(h2http.Transport)))
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.Get(front.String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Errorf("status %d", resp.StatusCode)
	}
}
