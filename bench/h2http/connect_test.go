//go:build unix

package h2http

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/cputime"
)

const (
	path    = "/grpc.testing.BenchmarkService/UnaryCall"
	callers = 64
	turns   = 9
	perTurn = 6400 // calls
)

// stack is a server and a client of one implementation.
type stack struct {
	name  string
	serve func(*http.Server, net.Listener) error
	rt    interface {
		http.RoundTripper
		CloseIdleConnections()
	}
	client  *connect.Client[pb.SimpleRequest, pb.SimpleResponse]
	used    []float64 // µs of processor time a call, of both sides
	mallocs []float64 // a call
}

// BenchmarkConnectUnary has connect-go make unary calls of 100 bytes on both stacks, in
// turns, and reports the processor time of client and server together. Run it with
// -benchtime 1x.
func BenchmarkConnectUnary(b *testing.B) {
	for _, p := range []struct {
		name string
		opts []connect.ClientOption
	}{{"protocol=connect", nil}, {"protocol=grpc", []connect.ClientOption{connect.WithGRPC()}}} {
		b.Run(p.name, func(b *testing.B) {
			stacks := start(b, p.opts)
			for range b.N {
				for turn := range turns + 1 {
					for _, s := range stacks {
						used, mallocs := s.turn(b)
						if turn > 0 { // the first warms up
							s.used, s.mallocs = append(s.used, used), append(s.mallocs, mallocs)
						}
					}
				}
			}
			for _, s := range stacks {
				slices.Sort(s.used)
				slices.Sort(s.mallocs)
				b.ReportMetric(s.used[len(s.used)/2], s.name+"-cpu-µs/call")
				b.ReportMetric(s.mallocs[len(s.mallocs)/2], s.name+"-allocs/call")
				b.Logf("%s: %.1f to %.1f µs", s.name, s.used[0], s.used[len(s.used)-1])
			}
			b.ReportMetric(stacks[1].used[len(stacks[1].used)/2]/stacks[0].used[len(stacks[0].used)/2], "ratio")
		})
	}
}

func start(b *testing.B, opts []connect.ClientOption) []*stack {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	stacks := []*stack{
		{name: "net/http", rt: tr, serve: func(srv *http.Server, l net.Listener) error {
			srv.Protocols = tr.Protocols
			return srv.Serve(l)
		}},
		{name: "h2http", rt: &h2http.Transport{DisableCompression: true}, serve: func(srv *http.Server, l net.Listener) error { return h2http.Serve(l, srv) }},
	}
	for _, s := range stacks {
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
	return stacks
}

// turn makes perTurn calls and returns the processor time and allocations of one.
func (s *stack) turn(b *testing.B) (used, mallocs float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cputime.Used()
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for range callers {
		wg.Go(func() {
			for range perTurn / callers {
				if err := s.call(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	used = float64((cputime.Used() - start).Nanoseconds()) / 1000 / perTurn
	runtime.ReadMemStats(&after)
	select {
	case err := <-errs:
		b.Fatalf("%s: %v", s.name, err)
	default:
	}
	return used, float64(after.Mallocs-before.Mallocs) / perTurn
}

func (s *stack) call() error {
	resp, err := s.client.CallUnary(context.Background(), connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}))
	if err == nil && len(resp.Msg.GetPayload().GetBody()) != 100 {
		err = fmt.Errorf("%d bytes came back", len(resp.Msg.GetPayload().GetBody()))
	}
	return err
}
