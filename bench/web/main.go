// Command web measures the processor time of a server for a unary call of connect-go's client with 100 bytes, and prints it in
// the form of Go's benchmarks:
//
//	go run ./web                        a turn: each kind of call with each of its servers
//	go run ./web -turns 5 -only json    five turns of some kinds
//
// The kinds are gRPC and Connect over HTTP/2, and Connect with JSON over HTTP/1.1, each without compression, and once more
// with a client that accepts gzip, as connect-go's does by default: connect-go's handler then compresses each response, and
// the others do not. The servers, each in a process of its own, are:
//
//	connect               connect-go's handler on net/http
//	tarn                  rpc's ServeHTTP on package h2http
//	tarn-serve            rpc's Serve
//
// The time is that of the server's process, user and system. Each turn begins with another server; -first is the number of
// the first turn, so that this goes on where turns are added (run.sh web). Linux only: it reads /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/rpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const (
	path    = "/grpc.testing.TestService/UnaryCall"
	callers = 32
)

func main() {
	log.SetFlags(0)
	server := flag.String("server", "", "be the server of this `name`, until standard input ends")
	calls := flag.Int("calls", 20000, "calls of each measurement")
	turns := flag.Int("turns", 1, "turns")
	first := flag.Int("first", 0, "`number` of the first turn")
	only := flag.String("only", "", "measure the kinds of calls whose name contains this `part`, such as grpc or gzip")
	flag.Parse()
	var err error
	if *server != "" {
		err = serve(*server)
	} else {
		err = measure(*only, *calls, *first, *turns)
	}
	if err != nil {
		log.Fatal("web: ", err)
	}
}

// echo answers with the request's payload.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// serve prints its address and serves until standard input ends.
func serve(name string) error {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: both}
	run, stop := srv.Serve, func() { srv.Close() }
	switch name {
	case "connect":
		mux := http.NewServeMux()
		mux.Handle(path, connect.NewUnaryHandler(path, func(_ context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
			return connect.NewResponse(&pb.SimpleResponse{Payload: r.Msg.Payload}), nil
		}))
		srv.Handler = mux
	case "tarn", "tarn-serve":
		s := rpc.NewServer()
		pb.RegisterTestServiceServer(s, echo{})
		srv.Handler = s
		run = func(l net.Listener) error { return h2http.Serve(l, srv) }
		if name == "tarn-serve" {
			run, stop = s.Serve, s.Stop
		}
	default:
		return fmt.Errorf("there is no server %q", name)
	}
	l, err := child.Listen(stop)
	if err != nil {
		return err
	}
	if err := run(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// kind is one kind of call.
type kind struct {
	name    string // of its benchmark
	http2   bool
	accept  accepted
	opts    []connect.ClientOption
	servers []string
}

// accepted is which compression of responses the client accepts.
type accepted uint8

const (
	nothing accepted = iota
	gzip             // connect-go's default
)

func kinds() []kind {
	servers := []string{"connect", "tarn", "tarn-serve"}
	grpc, json := []connect.ClientOption{connect.WithGRPC()}, []connect.ClientOption{connect.WithProtoJSON()}
	return []kind{
		{"protocol=grpc/http=2", true, nothing, grpc, servers},
		{"protocol=connect/http=2", true, nothing, nil, servers},
		{"protocol=connect-json/http=1.1", false, nothing, json, servers},
		{"protocol=grpc/http=2/accept=gzip", true, gzip, grpc, servers},
		{"protocol=connect/http=2/accept=gzip", true, gzip, nil, servers},
		{"protocol=connect-json/http=1.1/accept=gzip", false, gzip, json, servers},
	}
}

func measure(only string, calls, first, turns int) error {
	running := map[string]*child.Process{}
	defer func() {
		for _, p := range running {
			p.Close()
		}
	}()
	for turn := first; turn < first+turns; turn++ {
		for _, k := range kinds() {
			if !strings.Contains(k.name, only) {
				continue
			}
			for i := range k.servers {
				name := k.servers[(i+turn)%len(k.servers)]
				if running[name] == nil {
					p, err := start(name)
					if err != nil {
						return err
					}
					running[name] = p
				}
				if _, err := k.measure(running[name], calls/4); err != nil { // to warm up
					return fmt.Errorf("%s, %s: %w", k.name, name, err)
				}
				took, err := k.measure(running[name], calls)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", k.name, name, err)
				}
				n := float64(calls / callers * callers)
				fmt.Printf("BenchmarkWeb/%s/peer=%s \t%8.0f\t%12.0f cpu-ns/op\t%12.0f user-ns/op\t%12.0f kernel-ns/op\n",
					k.name, name, n, float64(took.Sum())/n, float64(took.User)/n, float64(took.Kernel)/n)
			}
		}
	}
	return nil
}

func start(name string) (*child.Process, error) {
	cmd, err := child.Self("-server", name)
	if err != nil {
		return nil, err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// measure makes calls and returns the server's processor time for all of them.
func (k kind) measure(p *child.Process, calls int) (child.Times, error) {
	version := new(http.Protocols)
	version.SetHTTP1(!k.http2)
	version.SetUnencryptedHTTP2(k.http2)
	tr := &http.Transport{Protocols: version, MaxIdleConnsPerHost: callers, DisableCompression: true}
	defer tr.CloseIdleConnections()
	opts := k.opts
	if k.accept == nothing {
		opts = append([]connect.ClientOption{connect.WithAcceptCompression("gzip", nil, nil)}, opts...)
	}
	c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](&http.Client{Transport: tr}, "http://"+p.Addr+path, opts...)
	in := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before, err := p.Times()
	if err != nil {
		return child.Times{}, err
	}
	var wg sync.WaitGroup
	failed := make(chan error, callers)
	for range callers {
		wg.Go(func() {
			for range calls / callers {
				if _, err := c.CallUnary(ctx, connect.NewRequest(in)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return child.Times{}, err
	default:
	}
	after, err := p.Times()
	return after.Sub(before), err
}
