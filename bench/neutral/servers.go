package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/selfsigned"
	"github.com/tarn-go/tarn/rpc"
)

// echo answers with the request's payload.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// serve runs a server until standard input ends. It prints its address.
func serve(name string) error {
	const window = 16 << 20
	var s interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
	}
	switch name {
	case "tarn":
		s = rpc.NewServer(rpc.MaxRecvMsgSize(16 << 20))
	case "tarn-lent":
		s = rpc.NewServer(rpc.MaxRecvMsgSize(16<<20), rpc.LendRequests())
	case "grpc":
		s = grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window))
	default:
		return serveHTTP(name)
	}
	pb.RegisterTestServiceServer(s, echo{})
	l, err := child.Listen(s.Stop)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// serveHTTP runs a server of HTTP/2, which has a certificate if the name ends in "-tls".
func serveHTTP(name string) error {
	srv := &http.Server{Handler: http.HandlerFunc(sendZeros), Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 256}}
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	run := srv.Serve
	switch name {
	case "connect-go":
		srv.Handler = connectEcho()
	case "nethttp":
	case "nethttp-tls":
		run = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	case "configure", "configure-tls":
		if err := h2http.ConfigureServer(srv, nil); err != nil {
			return err
		}
		if name == "configure-tls" {
			run = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
		}
	case "h2http":
		run = func(l net.Listener) error { return h2http.Serve(l, srv) }
	case "h2http-tls":
		run = func(l net.Listener) error { return h2http.ServeTLS(l, srv, "", "") }
	case "nginx", "nginx-tls":
		return becomeNginx(name == "nginx-tls")
	default:
		return fmt.Errorf("there is no server %q", name)
	}
	cert, err := selfsigned.New()
	if err != nil {
		return err
	}
	if srv.TLSConfig == nil {
		srv.TLSConfig = new(tls.Config)
	}
	srv.TLSConfig.Certificates = []tls.Certificate{cert}
	l, err := child.Listen(func() { srv.Close() })
	if err != nil {
		return err
	}
	if err := run(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connectEcho is echo on connect-go.
func connectEcho() http.Handler {
	const path = "/grpc.testing.TestService/UnaryCall"
	mux := http.NewServeMux()
	mux.Handle(path, connect.NewUnaryHandler(path, func(_ context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		return connect.NewResponse(&pb.SimpleResponse{Payload: r.Msg.Payload}), nil
	}))
	return mux
}

// zeros is the content of responses.
var zeros = make([]byte, 1<<20)

// sendZeros answers /N with N bytes.
func sendZeros(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil || n < 0 || n > len(zeros) {
		http.NotFound(w, r)
		return
	}
	w.Write(zeros[:n])
}
