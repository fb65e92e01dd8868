package h2http_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
)

// A server that is there already serves HTTP/2 by this package after one more line.
func ExampleConfigureServer() {
	mux := http.NewServeMux()
	srv := &http.Server{Addr: ":8443", Handler: mux}
	if err := h2http.ConfigureServer(srv, nil); err != nil {
		log.Fatal(err)
	}
	// log.Fatal(srv.ListenAndServeTLS("cert.pem", "key.pem"))
}

// A Server accepts its connections itself, and has a Shutdown of its own.
func ExampleServer() {
	s, err := h2http.NewServer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Proto, r.URL.Path)
	})}, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }() // or s.ListenAndServe()

	transport := &h2http.Transport{}
	response, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/hello")
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Printf("%s\n", text)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(s.Shutdown(ctx)) // Close ends what has not ended when ctx has
	fmt.Println(<-served)
	// Output:
	// HTTP/2.0 /hello
	// <nil>
	// http: Server closed
}

// Serve accepts HTTP/2 without TLS; a Transport is a client of it.
func ExampleServe() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Proto, r.URL.Path)
	})}
	go h2http.Serve(l, srv)
	defer srv.Close()

	client := &http.Client{Transport: &h2http.Transport{}}
	response, err := client.Get("http://" + l.Addr().String() + "/hello")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
	// Output: HTTP/2.0 /hello
}

// own is a protocol's server on HTTP/2. Requests for /own are its own; web has the others.
type own struct{ web h2.Handler }

var ownResponse = h2.NewBlock(h2.Field{Name: ":status", Value: "204"}, h2.Field{Name: "served-by", Value: "own"})

func (o *own) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	if h.Path != "/own" { // trailers have no path
		o.web.OnHeaders(s, h, e)
		return
	}
	s.Post(&h2.Out{Block: ownResponse, Ending: h2.End})
	s.Release()
}

func (o *own) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) { o.web.OnData(s, b, e) }

func (o *own) OnReset(s *h2.Stream, err error) { o.web.OnReset(s, err) }

// The server of another protocol on HTTP/2 serves an http.Handler on its port, too, and on the same connections.
func ExampleStreams() {
	web := h2http.NewStreams(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "the page %s", r.URL.Path)
	})}, nil)
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		o := new(own)
		conn, err := h2.NewServer(nc, o, h2.Config{})
		if err != nil {
			log.Fatal(err)
		}
		o.web = web.Of(context.Background(), conn, nc, nil)
		conn.Run()
	}()

	transport := &h2http.Transport{}
	defer transport.CloseIdleConnections()
	for _, path := range []string{"/own", "/page"} {
		response, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + path)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Printf("%d %q %q\n", response.StatusCode, response.Header.Get("Served-By"), text)
	}
	// Output:
	// 204 "own" ""
	// 200 "" "the page /page"
}
