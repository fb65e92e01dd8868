package h2http_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// A server whose http.Server has no Addr is shown under the address of the first listener that it serves.
func TestEndpointNamedByListener(t *testing.T) {
	s, err := h2http.NewServer(&http.Server{}, &h2http.Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	first, second := listenTCP(t), listenTCP(t)
	name := first.Addr().String()
	served := make(chan error, 2)
	go func() { served <- s.Serve(first) }()
	if res, err := http.Get("http://" + name); err != nil { // Serve has begun
		t.Error(err)
	} else {
		res.Body.Close()
	}
	go func() { served <- s.Serve(second) }()
	if res, err := http.Get("http://" + second.Addr().String()); err != nil {
		t.Error(err)
	} else {
		res.Body.Close()
	}
	if got := s.Endpoint().Name; got != name {
		t.Errorf("named %q, not %q", got, name)
	}
	s.Close()
	<-served
	<-served
}

// Server and transport show their connection to the debug page while it is open.
func TestEndpoint(t *testing.T) {
	srv := &http.Server{Addr: ":1", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })}
	pool := tarntest.NewPool(t)
	s, err := h2http.NewServer(srv, &h2http.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	if e := s.Endpoint(); e.Kind != "HTTP server" || e.Name != ":1" || e.Conns != 0 {
		t.Errorf("before it serves: %+v", e)
	}
	l := listenTCP(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Close()
		<-served
	}()
	tr := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: pool}}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	server, client := s.Endpoint(), tr.Endpoint()
	if server.Conns != 1 || len(server.Connections) != 1 || server.Connections[0].RecvWindow <= 0 {
		t.Errorf("%+v", server)
	}
	if client.Kind != "HTTP client" || client.Conns != 1 || client.Connections[0].Peer != l.Addr().String() && !faultnet.Omits(t, "the relay has addresses of its own") {
		t.Errorf("%+v", client)
	}
}
