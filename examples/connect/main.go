// Command connect serves gRPC, gRPC-Web and Connect on one port, and a page that calls the service from a browser with
// nothing but fetch: http://localhost:8080/
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"net/http"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

//go:embed page.html
var page []byte

type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.GetPayload(), Username: fmt.Sprintf("%d bytes", len(in.GetPayload().GetBody()))}, nil
}

// newServer returns a server whose paths /grpc.testing.TestService/… are the service's and whose other paths are the page's.
func newServer(addr string) (*http.Server, error) {
	calls := rpc.NewServer()
	pb.RegisterTestServiceServer(calls, service{})
	mux := http.NewServeMux()
	mux.Handle("/grpc.testing.TestService/", calls)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	})
	srv := &http.Server{Addr: addr, Protocols: new(http.Protocols), Handler: mux}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv, h2http.ConfigureServer(srv, nil)
}

func main() {
	srv, err := newServer("localhost:8080")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("open http://" + srv.Addr + "/")
	log.Fatal(srv.ListenAndServe())
}
