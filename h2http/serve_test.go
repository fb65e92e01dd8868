package h2http_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// stack is one way of serving HTTP/2.
type stack struct {
	name string
	// serve serves srv on l until it is shut down; it returns its error.
	serve func(srv *http.Server, l net.Listener) error
	tls   bool
	own   bool // by this package
	lean  bool // by a Server of this package, which accepts the connections
}

func protocols(tls bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(tls)
	p.SetUnencryptedHTTP2(!tls)
	return p
}

// stacks are net/http's HTTP/2, which is what the others are compared with, and every
// way in which this package serves.
var stacks = []stack{
	{"net/http", func(srv *http.Server, l net.Listener) error { return srv.Serve(l) }, false, false, false},
	{"net/http over TLS", func(srv *http.Server, l net.Listener) error { return srv.ServeTLS(l, "", "") }, true, false, false},
	{"ConfigureServer", func(srv *http.Server, l net.Listener) error { return srv.Serve(l) }, false, true, false},
	{"ConfigureServer over TLS", func(srv *http.Server, l net.Listener) error { return srv.ServeTLS(l, "", "") }, true, true, false},
	{"Serve", func(srv *http.Server, l net.Listener) error { return h2http.Serve(l, srv) }, false, true, true},
	{"ServeTLS", func(srv *http.Server, l net.Listener) error { return h2http.ServeTLS(l, srv, "", "") }, true, true, true},
}

// rig is a server and a client of net/http's that uses HTTP/2 only.
type rig struct {
	srv    *http.Server
	ender  // srv, or its Server
	url    string
	addr   string
	dial   faultnet.DialFunc // nil: dialTCP
	client *http.Client
	done   chan error // what serve returned
}

// ender ends a server.
type ender interface {
	Shutdown(context.Context) error
	Close() error
}

// start serves h by s until the test ends. with changes the server before it serves.
func (s stack) start(t testing.TB, h http.Handler, with ...func(*http.Server)) *rig {
	t.Helper()
	return s.startLimited(t, h, h2.Limits{}, with...)
}

// startLimited is start with limits, where own is set.
func (s stack) startLimited(t testing.TB, h http.Handler, limits h2.Limits, with ...func(*http.Server)) *rig {
	t.Helper()
	return s.startOn(t, listenTCP(t), dialer(t), h, limits, with...)
}

// startOn is startLimited on a listener, with a dialer for it; nil: TCP.
func (s stack) startOn(t testing.TB, l net.Listener, dial faultnet.DialFunc, h http.Handler, limits h2.Limits, with ...func(*http.Server)) *rig {
	t.Helper()
	r := &rig{srv: &http.Server{Handler: h, Protocols: protocols(s.tls)}, addr: l.Addr().String(), dial: dial, done: make(chan error, 1)}
	r.url = "http://" + r.addr
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: dial}
	tr.Protocols.SetUnencryptedHTTP2(!s.tls)
	tr.Protocols.SetHTTP2(s.tls)
	if s.tls {
		r.url = "https://" + r.addr
		cert, _ := testcert.New(t)
		r.srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	for _, f := range with {
		f(r.srv)
	}
	r.ender = r.srv
	serve := func() error { return s.serve(r.srv, l) }
	if s.own {
		own, err := h2http.NewServer(r.srv, &h2http.Config{Pool: tarntest.NewPool(t), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if s.lean {
			r.ender = own
			serve = func() error {
				if s.tls {
					return own.ServeTLS(l, "", "")
				}
				return own.Serve(l)
			}
		}
	}
	r.client = &http.Client{Transport: tr}
	go func() { r.done <- serve() }()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		r.Shutdown(context.Background())
	})
	return r
}

// each runs f for every stack.
func each(t *testing.T, f func(t *testing.T, s stack)) {
	for _, s := range stacks {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

func TestHello(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "hello "+r.Proto+" "+r.Method+" "+r.URL.Path)
		}))
		resp, err := r.client.Post(r.url+"/path", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if string(b) != "hello HTTP/2.0 POST /path" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if resp.ContentLength != int64(len(b)) {
			t.Errorf("content-length %d", resp.ContentLength)
		}
	})
}
