//go:build unix

package h2http

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/cputime"
)

const (
	path    = "/grpc.testing.BenchmarkService/UnaryCall"
	callers = 64
	warmUp  = 6400 // calls
)

// stack is a server and a client of one implementation.
type stack struct {
	name  string
	serve func(*http.Server, net.Listener) error
	rt    interface {
		http.RoundTripper
		CloseIdleConnections()
	}
	client *connect.Client[pb.SimpleRequest, pb.SimpleResponse]
}

// BenchmarkConnectUnary has connect-go make unary calls of 100 bytes with client and server on one stack, and reports
// the processor time of both together.
func BenchmarkConnectUnary(b *testing.B) {
	for _, p := range []struct {
		name string
		opts []connect.ClientOption
	}{{"protocol=connect", nil}, {"protocol=grpc", []connect.ClientOption{connect.WithGRPC()}}} {
		b.Run(p.name, func(b *testing.B) {
			for _, s := range []*stack{ours(), netHTTP()} {
				b.Run("peer="+s.name, func(b *testing.B) {
					s.start(b, p.opts)
					s.calls(b, warmUp)
					b.ReportAllocs()
					b.ResetTimer()
					before := cputime.Used()
					s.calls(b, b.N)
					b.ReportMetric(float64((cputime.Used()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
				})
			}
		})
	}
}

func ours() *stack {
	return &stack{name: "tarn", rt: &h2http.Transport{DisableCompression: true},
		serve: func(srv *http.Server, l net.Listener) error { return h2http.Serve(l, srv) }}
}

func netHTTP() *stack {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return &stack{name: "nethttp", rt: tr, serve: func(srv *http.Server, l net.Listener) error {
		srv.Protocols = tr.Protocols
		return srv.Serve(l)
	}}
}

// start starts the server, which ends with b, and makes the client.
func (s *stack) start(b *testing.B, opts []connect.ClientOption) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(path, connect.NewUnaryHandler(path, func(_ context.Context, req *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		return connect.NewResponse(&pb.SimpleResponse{Payload: req.Msg.Payload}), nil
	}))
	srv := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	go s.serve(srv, l) // ends with Close
	b.Cleanup(func() {
		s.rt.CloseIdleConnections()
		srv.Close()
	})
	s.client = connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](&http.Client{Transport: s.rt}, "http://"+l.Addr().String()+path, opts...)
}

// calls has the callers make n calls together.
func (s *stack) calls(b *testing.B, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := s.call(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		b.Fatalf("%s: %v", s.name, err)
	default:
	}
}

func (s *stack) call() error {
	resp, err := s.client.CallUnary(context.Background(), connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}))
	if err == nil && len(resp.Msg.GetPayload().GetBody()) != 100 {
		err = fmt.Errorf("%d bytes came back", len(resp.Msg.GetPayload().GetBody()))
	}
	return err
}
