package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/tarn-go/tarn/h2http"
)

func Example() {
	srv, err := newServer("")
	if err != nil {
		log.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(lis)
	defer srv.Close()
	for _, rt := range []http.RoundTripper{http.DefaultTransport, &h2http.Transport{}} {
		client := http.Client{Transport: rt}
		resp, err := client.Get("http://" + lis.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		client.CloseIdleConnections()
		fmt.Printf("%s", body)
	}
	// Output:
	// hello over HTTP/1.1
	// hello over HTTP/2.0
}
