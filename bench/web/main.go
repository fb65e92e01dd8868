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
//	tarn-serve            rpc's Serve, which has an HTTP/1.1 server of its own
//	floor                 a handler on h2http that only reads, converts and writes: the least that any handler costs
//	floor-canned-go       package h2 and responses made before, each sent by a goroutine of its own (see canned)
//	floor-canned          the same, sent by the goroutine that reads
//	tarn-loop, floor-loop the handlers of tarn and floor on HTTP/1.1 without net/http's server (see handleLoop)
//	floor-unparsed        HTTP/1.1 without parsing the request's head (see handleUnparsed)
//	floor-echo            the same without JSON: the response is the request's text
//
// Over HTTP/1.1 net/http's server calls the handlers of connect, tarn and floor. The time is that of the server's process,
// user and system. Each turn begins with another server; -first is the number of the first turn, so that this goes on where
// turns are added (run.sh web). ./claims makes the table of docs/rpc.md. Linux only: it reads /proc.
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
	case "floor-canned", "floor-canned-go":
		from := onReader
		if name == "floor-canned-go" {
			from = onGoroutine
		}
		c, err := newCanned(from)
		if err != nil {
			return err
		}
		run, stop = accepting(c.serve)
	case "floor-loop", "tarn-loop":
		handler := http.Handler(http.HandlerFunc(floor))
		if name == "tarn-loop" {
			s := rpc.NewServer()
			pb.RegisterTestServiceServer(s, echo{})
			handler = s
		}
		run, stop = accepting(handleLoop(handler))
	case "floor-unparsed":
		run, stop = accepting(handleUnparsed(answerJSON))
	case "floor-echo":
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
	over2 := []string{"connect", "tarn", "tarn-serve", "floor", "floor-canned-go", "floor-canned"}
	over1 := []string{"connect", "tarn", "tarn-serve", "floor", "tarn-loop", "floor-loop", "floor-unparsed", "floor-echo"}
	few, few1 := []string{"connect", "tarn", "floor"}, []string{"connect", "tarn", "tarn-serve", "floor"}
	grpc, json := []connect.ClientOption{connect.WithGRPC()}, []connect.ClientOption{connect.WithProtoJSON()}
	return []kind{
		{"protocol=grpc/http=2", true, nothing, grpc, over2},
		{"protocol=connect/http=2", true, nothing, nil, over2},
		{"protocol=connect-json/http=1.1", false, nothing, json, over1},
		{"protocol=grpc/http=2/accept=gzip", true, gzip, grpc, few},
		{"protocol=connect/http=2/accept=gzip", true, gzip, nil, few},
		{"protocol=connect-json/http=1.1/accept=gzip", false, gzip, json, few1},
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
