package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/selfsigned"
	"github.com/tarn-go/tarn/rpc"
)

var serverNames = []string{"h2http", "ConfigureServer", "net/http", floor, "rpc", "grpc-go"}

// floor is what ConfigureServer cannot be below: an http.Server whose function in TLSNextProto waits, and does nothing else.
const floor = "TLSNextProto"

// serve runs the server that args name until standard input ends. It prints its address, then its memory for each line that it reads.
func serve(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cert, err := selfsigned.New()
	if err != nil {
		return err
	}
	var config *tls.Config
	if args[1] == "tls" {
		config = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	}
	run, err := server(args[0], config)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run(l) }()
	go func() { ended <- answer(l.Addr().String()) }()
	return <-ended
}

// answer prints first and then the memory for each line that it reads.
func answer(first string) error {
	fmt.Println(first)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Printf("%.0f\n", memoryInUse())
	}
	return nil
}

// server returns what serves a listener as name says, over TLS unless config is nil.
func server(name string, config *tls.Config) (func(net.Listener) error, error) {
	srv := &http.Server{Handler: http.HandlerFunc(respond), Protocols: new(http.Protocols), TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	netHTTP := srv.Serve
	if config != nil {
		netHTTP = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	switch name {
	case "net/http":
		return netHTTP, nil
	case floor:
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(*http.Server, *tls.Conn, http.Handler) { select {} }}
		return netHTTP, nil
	case "ConfigureServer":
		return netHTTP, h2http.ConfigureServer(srv, nil)
	case "h2http":
		if config != nil {
			return func(l net.Listener) error { return h2http.ServeTLS(l, srv, "", "") }, nil
		}
		return func(l net.Listener) error { return h2http.Serve(l, srv) }, nil
	case "rpc":
		var opts []rpc.ServerOption
		if config != nil {
			opts = append(opts, rpc.Creds(credentials.NewTLS(config)))
		}
		s := rpc.NewServer(opts...)
		pb.RegisterTestServiceServer(s, service{})
		return s.Serve, nil
	case "grpc-go":
		var opts []grpc.ServerOption
		if config != nil {
			opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
		}
		s := grpc.NewServer(opts...)
		pb.RegisterTestServiceServer(s, service{})
		return s.Serve, nil
	}
	return nil, fmt.Errorf("there is no server %q", name)
}

// respond answers /, and lets other requests wait for the client's end.
func respond(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		io.WriteString(w, "idle")
		return
	}
	<-r.Context().Done()
}

// service is respond for gRPC.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return new(pb.Empty), nil }

func (service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// memoryInUse returns the bytes of live objects and of stacks.
func memoryInUse() float64 {
	// Two collections, because a sync.Pool keeps its memory for one more cycle.
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64() + s[1].Value.Uint64())
}
