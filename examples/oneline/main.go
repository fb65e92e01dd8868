// Command oneline is a server of net/http on Tarn's HTTP/2. The line that is marked is all that it takes.
//
//	curl --http2-prior-knowledge http://localhost:8080/
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/tarn-go/tarn/h2http"
)

func main() {
	srv, err := newServer("localhost:8080")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", srv.Addr)
	log.Fatal(srv.ListenAndServe())
}

// newServer returns a server of HTTP/1.1 and of HTTP/2 without TLS.
func newServer(addr string) (*http.Server, error) {
	srv := &http.Server{Addr: addr, Protocols: new(http.Protocols), Handler: http.HandlerFunc(hello)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv, h2http.ConfigureServer(srv, nil) // the line; after the fields are set
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "hello over", r.Proto)
}
