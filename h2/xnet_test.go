//lint:file-ignore SA1019 the HTTP/2 of x/net is a peer here

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestXNetClient: golang.org/x/net/http2's client against this package's server.
func TestXNetClient(t *testing.T) {
	pool := tarntest.NewPool(t)
	a, b := tcpWiring(t)
	rec := newRecorder(t)
	rec.serve = echo(t, pool)
	s, err := NewServer(b, rec, Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan error, 1)
	go func() { run <- s.Run() }()
	// With Go 1.27 x/net leaves this to net/http, which dials for each of the first requests.
	dialed := make(chan net.Conn, 1)
	dialed <- a
	tr := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		select {
		case c := <-dialed:
			return c, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 12 {
				body := bytes.Repeat([]byte{byte(i), byte(j)}, (i*31+j*4099)%60_000)
				req, _ := http.NewRequest("POST", "http://x/test", bytes.NewReader(body))
				req.Header.Set("X-Call", fmt.Sprint(i, j))
				req.Header.Set("Content-Type", "application/grpc")
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes sent, %d came back: %v", len(body), len(got), err)
				}
				if res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("Content-Type") != "application/grpc" {
					t.Errorf("header %v, trailers %v", res.Header, res.Trailer)
				}
			}
		}()
	}
	wg.Wait()
	tr.CloseIdleConnections()
	a.Close()
	if err := <-run; err != nil {
		t.Error(err)
	}
	rec.calls.Wait()
}

// TestXNetServer: this package's client against golang.org/x/net/http2's server.
func TestXNetServer(t *testing.T) {
	faultnet.NeedsTCP(t, "the server of x/net asks for a completed handshake of TLS")
	pool := tarntest.NewPool(t)
	a, b := tcpWiring(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		(&http2.Server{MaxConcurrentStreams: 20}).ServeConn(b, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Grpc-Status")
			w.Header().Set("X-Call", r.Header.Get("X-Call"))
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
			w.Header().Set("Grpc-Status", "0")
		})})
	}()
	rec := newRecorder(t)
	c, err := NewClient(a, rec, Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan error, 1)
	go func() { run <- c.Run() }()
	<-rec.gotSettings
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 8 {
				body := bytes.Repeat([]byte{byte(i), byte(j)}, (i*31+j*40999)%150_000)
				id := fmt.Sprint(i, "-", j)
				var rest tarn.Chain
				rest.Append(pool.Copy(body[len(body)/2:]))
				k := newCall()
				s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Fields: []Field{{Name: "x-call", Value: id}},
					Data: pool.Copy(body[:len(body)/2]), Rest: &rest, Ending: End})
				if err != nil {
					t.Error(err)
					return
				}
				<-k.done
				s.Release()
				if k.err != nil || !bytes.Equal(k.body, body) {
					t.Errorf("%d bytes sent, %d came back: %v", len(body), len(k.body), k.err)
				}
				h := Header{Fields: k.fields}
				if got, _ := h.Get("x-call"); got != id {
					t.Errorf("call %s was answered as %s", id, got)
				}
				if len(k.trailer) != 1 || k.trailer[0].Value != "0" {
					t.Errorf("trailers %v", k.trailer)
				}
			}
		}()
	}
	wg.Wait()
	if d, err := c.Ping(context.Background()); err != nil || d <= 0 {
		t.Error(d, err)
	}
	c.Shutdown("")
	if err := <-run; err != nil {
		t.Error(err)
	}
	<-served
}
