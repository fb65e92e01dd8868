// Command web measures the processor time of a server for a call of connect-go's client, without compression:
// connect-go's handler on net/http, Tarn's ServeHTTP on package h2http, Tarn's Serve, and, as the least that any
// handler costs, one on h2http that only reads, converts and writes, and two servers on package h2 with responses made
// before (see canned). For HTTP/1.1 two servers without net/http's server show what it takes (see handleLoop), and two that do not
// parse requests either show what any server takes (see handleUnparsed). Each has a separate process.
//
//	go run ./web -calls 20000 -turns 7
//
// It prints processor time (user and system) a call, the median of the turns, which alternate between the
// servers, and their ratio with its range. Over HTTP/1.1 the others serve by net/http. Linux only: it reads /proc.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/rpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	path    = "/grpc.testing.TestService/UnaryCall"
	callers = 32
)

func main() {
	log.SetFlags(0)
	server := flag.String("server", "", "serve as connect-go, tarn, serve, floor, loop, loop-tarn, unparsed, unparsed-same, canned or canned-go, until standard input ends")
	calls := flag.Int("calls", 20000, "calls a turn")
	turns := flag.Int("turns", 7, "turns of each server")
	only := flag.String("only", "", "measure the kinds of calls whose name contains this, such as gRPC or JSON")
	compress := flag.Bool("gzip", false, "accept gzip, as connect-go's client does by default: connect-go's handler then compresses each response, and the others do not")
	flag.Parse()
	accept := nothing
	if *compress {
		accept = gzip
	}
	var err error
	if *server != "" {
		err = serve(*server)
	} else {
		err = measure(*only, *calls, *turns, accept)
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
	case "connect-go":
		mux := http.NewServeMux()
		mux.Handle(path, connect.NewUnaryHandler(path, func(_ context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
			return connect.NewResponse(&pb.SimpleResponse{Payload: r.Msg.Payload}), nil
		}))
		srv.Handler = mux
	case "tarn", "serve":
		s := rpc.NewServer()
		pb.RegisterTestServiceServer(s, echo{})
		srv.Handler = s
		run = func(l net.Listener) error { return h2http.Serve(l, srv) }
		if name == "serve" {
			run, stop = s.Serve, s.Stop
		}
	case "canned", "canned-go":
		from := onReader
		if name == "canned-go" {
			from = onGoroutine
		}
		c, err := newCanned(from)
		if err != nil {
			return err
		}
		run, stop = accepting(c.serve)
	case "loop", "loop-tarn":
		handler := http.Handler(http.HandlerFunc(floor))
		if name == "loop-tarn" {
			s := rpc.NewServer()
			pb.RegisterTestServiceServer(s, echo{})
			handler = s
		}
		run, stop = accepting(handleLoop(handler))
	case "unparsed":
		run, stop = accepting(handleUnparsed(answerJSON))
	case "unparsed-same":
		run, stop = accepting(handleUnparsed(answerSame))
	case "floor":
		srv.Handler = http.HandlerFunc(floor)
		run = func(l net.Listener) error { return h2http.Serve(l, srv) }
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

// floor answers a call with the least work that a handler can do: it reads the body, decodes, encodes and writes
// once, without protocol, deadline, limit, metadata or interceptor.
func floor(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err == nil {
		w.Header()["Content-Type"] = r.Header["Content-Type"]
		switch r.Header.Get("Content-Type") {
		case "application/json":
			text, err = answer(text, protojson.Unmarshal, protojson.Marshal)
		case "application/proto":
			text, err = answer(text, proto.Unmarshal, proto.Marshal)
		default: // gRPC, of which every request has a prefix
			w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
			text, err = answer(text[prefix:], proto.Unmarshal, framed)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(text) // the client may have closed the connection
}

func answer(text []byte, decode func([]byte, proto.Message) error, encode func(proto.Message) ([]byte, error)) ([]byte, error) {
	var in pb.SimpleRequest
	if err := decode(text, &in); err != nil {
		return nil, err
	}
	return encode(&pb.SimpleResponse{Payload: in.Payload})
}

// prefix is the length in bytes of a gRPC message's prefix.
const prefix = 5

func framed(m proto.Message) ([]byte, error) {
	text, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, prefix, 128), m)
	binary.BigEndian.PutUint32(text[1:], uint32(len(text)-prefix))
	return text, err
}

// process is a server that runs.
type process struct {
	name string
	*child.Process
}

func start(name string) (*process, error) {
	cmd, err := child.Self("-server", name)
	if err != nil {
		return nil, err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &process{name, p}, nil
}

// shape is one kind of call.
type shape struct {
	name  string
	limit float64 // the target for Tarn's share of connect-go's time
	http2 bool
	opts  []connect.ClientOption
}

var shapes = []shape{
	{"gRPC over HTTP/2", 0.35, true, []connect.ClientOption{connect.WithGRPC()}},
	{"Connect over HTTP/2", 0.35, true, nil},
	{"Connect JSON over HTTP/1.1", 0.6, false, []connect.ClientOption{connect.WithProtoJSON()}},
}

// accepted is which compression of responses the client accepts.
type accepted uint8

const (
	nothing accepted = iota
	gzip             // connect-go's default
)

// servers are the processes, connect-go's first, and what a row of the table names each.
var servers = [...]struct {
	name, title string
	http2       bool // and nothing else
	http1       bool // and nothing else
}{
	{name: "connect-go", title: "connect-go on net/http"},
	{name: "tarn", title: "ServeHTTP on h2http"},
	{name: "serve", title: "rpc.Server.Serve"},
	{name: "floor", title: "a bare handler on h2http"},
	{name: "loop", title: "a bare handler, bare loop", http1: true},
	{name: "loop-tarn", title: "ServeHTTP, bare loop", http1: true},
	{name: "unparsed", title: "JSON, head not parsed", http1: true},
	{name: "unparsed-same", title: "neither JSON nor a head", http1: true},
	{name: "canned-go", title: "canned, own goroutine", http2: true},
	{name: "canned", title: "canned", http2: true},
}

func measure(only string, calls, turns int, accept accepted) error {
	var ps [len(servers)]*process
	for i, s := range servers {
		p, err := start(s.name)
		if err != nil {
			return err
		}
		defer p.Close()
		ps[i] = p
	}
	fmt.Printf("%-28s %-26s %12s %22s %8s\n", "100 B unary", "server", "µs a call", "/ connect-go's", "target")
	for _, s := range shapes {
		if !strings.Contains(s.name, only) {
			continue
		}
		var took, ratios [len(servers)][]float64
		for turn := range turns + 1 {
			for i, p := range ps {
				if servers[i].http2 && !s.http2 || servers[i].http1 && s.http2 {
					continue
				}
				us, err := s.turn(p, calls, accept)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, p.name, err)
				}
				if turn > 0 { // the first warms up
					took[i] = append(took[i], us)
					ratios[i] = append(ratios[i], us/took[0][turn-1])
				}
			}
		}
		for i, server := range servers {
			if len(ratios[i]) == 0 {
				continue
			}
			slices.Sort(ratios[i])
			fmt.Printf("%-28s %-26s %12.1f %8.2f (%.2f to %.2f) %8.2f\n", s.name, server.title, median(took[i]),
				median(ratios[i]), ratios[i][0], ratios[i][turns-1], s.limit)
		}
	}
	return nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// turn makes calls and returns the server's processor time for each, in microseconds.
func (s shape) turn(p *process, calls int, accept accepted) (float64, error) {
	version := new(http.Protocols)
	version.SetHTTP1(!s.http2)
	version.SetUnencryptedHTTP2(s.http2)
	tr := &http.Transport{Protocols: version, MaxIdleConnsPerHost: callers, DisableCompression: true}
	defer tr.CloseIdleConnections()
	opts := s.opts
	if accept == nothing {
		opts = append([]connect.ClientOption{connect.WithAcceptCompression("gzip", nil, nil)}, opts...)
	}
	c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](&http.Client{Transport: tr}, "http://"+p.Addr+path, opts...)
	in := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before, err := p.Times()
	if err != nil {
		return 0, err
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
		return 0, err
	default:
	}
	after, err := p.Times()
	return after.Sub(before).Sum().Seconds() * 1e6 / float64(calls/callers*callers), err
}
