package h2http

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// need returns the path of a program, or leaves the test out; with CI=true it fails.
func need(t *testing.T, name string) string {
	t.Helper()
	for _, p := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	leave(t, name)
	return ""
}

func leave(t *testing.T, name string) {
	t.Helper()
	leftout.Skip(t, name+" is not installed; see ci/deps.sh")
}

// run runs a program to its end and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String()
}

// security is whether a server uses TLS.
type security uint8

const (
	plain security = iota
	overTLS
	configured // over TLS, served by net/http with ConfigureServer rather than by ServeTLS
)

func both(t *testing.T, f func(t *testing.T, s security)) {
	t.Run("unencrypted", func(t *testing.T) { f(t, plain) })
	t.Run("TLS", func(t *testing.T) { f(t, overTLS) })
}

// eachWay is both, and ConfigureServer.
func eachWay(t *testing.T, f func(t *testing.T, s security)) {
	both(t, f)
	t.Run("ConfigureServer", func(t *testing.T) { f(t, configured) })
}

// serve serves h by h2http until the test ends and returns its URL.
func serve(t testing.TB, s security, h http.Handler, with ...func(*http.Server)) string {
	t.Helper()
	return serveWith(t, s, h, h2http.Config{}, with...)
}

// serveWith is serve with settings of h2http's own.
func serveWith(t testing.TB, s security, h http.Handler, conf h2http.Config, with ...func(*http.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	for _, f := range with {
		f(srv)
	}
	if s != plain {
		cert, _ := testcert.New(t)
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	conf.Pool = tarntest.NewPool(t)
	own, err := h2http.NewServer(srv, &conf)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	url := "http://" + l.Addr().String()
	listen := func() error { return own.Serve(l) }
	if s != plain {
		url = "https://" + l.Addr().String()
		listen = func() error { return own.ServeTLS(l, "", "") }
	}
	if s == configured {
		listen = func() error { return srv.ServeTLS(l, "", "") }
	}
	go func() { defer close(ended); listen() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if own.Shutdown(ctx) != nil {
			own.Close()
		}
		<-ended
	})
	return url
}

// client returns a client of h2http.
func client(t testing.TB) *http.Client {
	rt := &h2http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt}
}

// netHTTPClient returns a client of net/http's with ConfigureTransport, for HTTP/2 only.
func netHTTPClient(t testing.TB) *http.Client {
	rt := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
	rt.Protocols.SetHTTP2(true)
	rt.Protocols.SetUnencryptedHTTP2(true)
	if err := h2http.ConfigureTransport(rt, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt}
}

// eachClient is both with each client.
func eachClient(t *testing.T, f func(t *testing.T, s security, c *http.Client)) {
	both(t, func(t *testing.T, s security) {
		t.Run("Transport", func(t *testing.T) { f(t, s, client(t)) })
		t.Run("ConfigureTransport", func(t *testing.T) { f(t, s, netHTTPClient(t)) })
	})
}
