package h2http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// clientStack is one way of sending requests over HTTP/2.
type clientStack struct {
	name string
	make func(t testing.TB, s *clientSetup) http.RoundTripper
	tls  bool
	own  bool // by this package
}

// clientSetup is what tests change about a client.
type clientSetup struct {
	tr   http.Transport // its settings
	dial faultnet.DialFunc
}

// dialer is dial, or what dials by default, on the network that faultnet.Variable names.
func (s *clientSetup) dialer(t testing.TB) faultnet.DialFunc {
	if s.dial != nil {
		return dialThrough(t, s.dial)
	}
	return dialer(t)
}

func netHTTPTransport(t testing.TB, s *clientSetup, overTLS bool) *http.Transport {
	tr := s.tr.Clone()
	tr.DialContext = s.dialer(t)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP2(overTLS)
	tr.Protocols.SetUnencryptedHTTP2(!overTLS)
	tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func ownTransport(t testing.TB, s *clientSetup) http.RoundTripper {
	tr := &h2http.Transport{
		DialContext:            s.dialer(t),
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		IdleConnTimeout:        s.tr.IdleConnTimeout,
		ResponseHeaderTimeout:  s.tr.ResponseHeaderTimeout,
		ExpectContinueTimeout:  s.tr.ExpectContinueTimeout,
		MaxResponseHeaderBytes: s.tr.MaxResponseHeaderBytes,
		DisableCompression:     s.tr.DisableCompression,
		DisableKeepAlives:      s.tr.DisableKeepAlives,
		MaxConnsPerHost:        s.tr.MaxConnsPerHost,
		HTTP2:                  s.tr.HTTP2,
		Config:                 h2http.Config{Pool: drainedPool(t)},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func configured(t testing.TB, s *clientSetup, overTLS bool) http.RoundTripper {
	tr := netHTTPTransport(t, s, overTLS)
	if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

var clientStacks = []clientStack{
	{"net/http", func(t testing.TB, s *clientSetup) http.RoundTripper { return netHTTPTransport(t, s, false) }, false, false},
	{"net/http over TLS", func(t testing.TB, s *clientSetup) http.RoundTripper { return netHTTPTransport(t, s, true) }, true, false},
	{"Transport", ownTransport, false, true},
	{"Transport over TLS", ownTransport, true, true},
	{"ConfigureTransport", func(t testing.TB, s *clientSetup) http.RoundTripper { return configured(t, s, false) }, false, true},
	{"ConfigureTransport over TLS", func(t testing.TB, s *clientSetup) http.RoundTripper { return configured(t, s, true) }, true, true},
}

// drainedPool returns a pool for a client, whose connections end on their own some time
// after CloseIdleConnections: the test waits for that.
func drainedPool(t testing.TB) *tarn.Pool {
	pool := tarntest.NewPool(t)
	t.Cleanup(func() {
		deadline := time.After(10 * time.Second)
		for len(pool.Outstanding()) > 0 {
			select {
			case <-time.After(time.Millisecond):
			case <-deadline:
				return // the pool reports what is still out
			}
		}
	})
	return pool
}

// origin is a server of net/http's for the clients under test.
type origin struct {
	url   string
	conns connCount
}

// connNumber is the key of the context of an origin's requests for the number of their connection: on some networks all have one address.
type connNumber struct{}

// connCount counts connections.
type connCount struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

func (c *connCount) note(nc net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[net.Conn]http.ConnState)
	}
	c.all[nc] = s
}

func (c *connCount) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

func startOrigin(t testing.TB, overTLS bool, h http.Handler, with ...func(*http.Server)) *origin {
	t.Helper()
	l := listenTCP(t)
	o := new(origin)
	srv := &http.Server{Handler: h, Protocols: protocols(overTLS), ErrorLog: log.New(io.Discard, "", 0)}
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		o.conns.note(c, http.StateNew)
		return context.WithValue(ctx, connNumber{}, o.conns.len())
	}
	for _, f := range with {
		f(srv)
	}
	o.url = "http://" + l.Addr().String()
	if overTLS {
		o.url = "https://" + l.Addr().String()
		cert, _ := testcert.New(t)
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		go srv.ServeTLS(l, "", "")
	} else {
		go srv.Serve(l)
	}
	t.Cleanup(func() { srv.Close() })
	return o
}

// eachClient runs f for every client stack.
func eachClient(t *testing.T, f func(t *testing.T, s clientStack)) {
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

func TestClientHello(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d %v", r.Proto, r.Method, len(b), err)
		}))
		client := &http.Client{Transport: s.make(t, new(clientSetup))}
		for _, body := range []string{"", "x", strings.Repeat("x", 100<<10)} {
			resp, err := client.Post(o.url+"/path", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := fmt.Sprintf("HTTP/2.0 POST %d <nil>", len(body)); string(b) != want || err != nil {
				t.Errorf("%q, %v; want %q", b, err, want)
			}
		}
		// net/http delivers a new connection to its request before it can be found by others: a quick response's
		// successor dials another.
		if n := o.conns.len(); n != 1 && s.own {
			t.Errorf("%d connections", n)
		}
	})
}

func TestClientManyAtOnce(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		client := &http.Client{Transport: s.make(t, new(clientSetup))}
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				want := bytes.Repeat([]byte{byte(i)}, 1+i*1000)
				for range 5 {
					resp, err := client.Post(o.url, "", bytes.NewReader(want))
					if err != nil {
						t.Error(err)
						return
					}
					b, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || !bytes.Equal(b, want) {
						t.Errorf("%d bytes of %d, %v", len(b), len(want), err)
					}
				}
			}()
		}
		wg.Wait()
	})
}

// TestClientInvalidPath: the error quotes what the caller has set, which a reverse proxy may have taken from its own request.
func TestClientInvalidPath(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.NotFoundHandler())
		req, err := http.NewRequestWithContext(t.Context(), "GET", o.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = req.URL.Scheme + "://other.example/x"
		_, err = s.make(t, new(clientSetup)).RoundTrip(req)
		if want := fmt.Sprintf("%[1]q from URL.Opaque = %[1]q", req.URL.Opaque); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
