package h2http_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/h2http"
)

// TestCloseWhileAConnectionBegins: a connection that is between its acceptance and its registration when the
// server is closed is closed, too.
func TestCloseWhileAConnectionBegins(t *testing.T) {
	l := listenTCP(t)
	begun, closed := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	var first sync.Once
	srv := &http.Server{Handler: http.NotFoundHandler(), ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			first.Do(func() { close(begun); <-closed })
		case http.StateClosed:
			close(ended)
		}
	}}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h2http.Serve(l, srv) }()
	tr := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: drainedPool(t)}}
	defer tr.CloseIdleConnections()
	get := func() error {
		req, err := http.NewRequest("GET", "http://"+l.Addr().String(), nil)
		if err != nil {
			return err
		}
		resp, err := tr.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	answered := make(chan error, 1)
	go func() { answered <- get() }()
	<-begun
	srv.Close()
	<-served
	close(closed)
	if err := <-answered; err == nil {
		t.Error("a closed server answers")
	}
	<-ended
	if err := get(); err == nil {
		t.Error("a closed server accepts connections")
	}
}

// aborting is a reader whose second Read panics.
type aborting struct{ reads int }

func (a *aborting) Read(p []byte) (int, error) {
	if a.reads++; a.reads > 1 {
		panic(http.ErrAbortHandler)
	}
	return copy(p, strings.Repeat("x", 100)), nil
}

// TestReaderThatPanics: what a response was read into is freed (rule 1), which the stack's pool checks.
func TestReaderThatPanics(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, new(aborting)) }))
		resp, err := r.client.Get(r.url)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Error("the response of a handler that panicked ended in order")
		}
	})
}
