package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/selfsigned"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// service is the service under attack: one method answers, one blocks until its caller cancels, one
// reads and one sends.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// FullDuplexCall ends when its caller gives up and reads nothing.
func (service) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	<-s.Context().Done()
	return nil
}

func (service) StreamingInputCall(s pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

// StreamingOutputCall sends 64 MiB, whatever is asked for.
func (service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
	m := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 1<<20)}}
	for range 64 {
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP is the same for servers of HTTP. UnaryCall sends the body back as it arrives.
func (service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path.Base(r.URL.Path) {
	case "UnaryCall":
		io.Copy(w, r.Body)
	case "EmptyCall", "FullDuplexCall":
		<-r.Context().Done()
	case "StreamingInputCall":
		io.Copy(io.Discard, r.Body)
	case "StreamingOutputCall":
		b := make([]byte, 1<<20)
		for range 64 {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	default:
		http.NotFound(w, r)
	}
}

// kind is a kind of connection that a server accepts.
type kind string

const (
	plain   kind = "plain"
	overTLS kind = "tls"
	wrapped kind = "wrapped" // TCP connections of a type that no server recognises
)

// wrappedConns wraps the connections that it accepts.
type wrappedConns struct{ net.Listener }

func (l wrappedConns) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{nc}, nil
}

// serve runs a server with default options until standard input ends. It prints its address.
func serve(name string, k kind) error {
	var config *tls.Config
	if k == overTLS {
		cert, err := selfsigned.New()
		if err != nil {
			return err
		}
		config = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	stop := make(chan struct{})
	l, err := child.Listen(func() { close(stop) })
	if err != nil {
		return err
	}
	if k == wrapped {
		l = wrappedConns{l}
	}
	var grpcOptions []grpc.ServerOption
	var rpcOptions []rpc.ServerOption
	if config != nil {
		grpcOptions = append(grpcOptions, grpc.Creds(credentials.NewTLS(config)))
		rpcOptions = append(rpcOptions, rpc.Creds(credentials.NewTLS(config)))
	}
	var run func(net.Listener) error
	switch name {
	case "tarn":
		s := rpc.NewServer(rpcOptions...)
		pb.RegisterTestServiceServer(s, service{})
		run = s.Serve
	case "grpc":
		s := grpc.NewServer(grpcOptions...)
		pb.RegisterTestServiceServer(s, service{})
		run = s.Serve
	case "h2http", "nethttp":
		s := &http.Server{Handler: service{}, TLSConfig: config, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP2(config != nil)
		s.Protocols.SetUnencryptedHTTP2(config == nil)
		switch {
		case name == "h2http" && config != nil:
			run = func(l net.Listener) error { return h2http.ServeTLS(l, s, "", "") }
		case name == "h2http":
			run = func(l net.Listener) error { return h2http.Serve(l, s) }
		case config != nil:
			run = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		default:
			run = s.Serve
		}
	default:
		return fmt.Errorf("there is no server %q", name)
	}
	failed := make(chan error, 1)
	go func() { failed <- run(l) }()
	select {
	case err := <-failed:
		return err
	case <-stop:
		return nil
	}
}
