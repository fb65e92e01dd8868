// Command contention counts how often a unary call of 100 bytes finds a lock taken, or waits on a channel, in both ends of it, and
// prints a table in Markdown. It counts rather than measures time, so that the result does not depend on what else the machine does,
// and shows what more processors would wait for.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// size is how many bytes a request and a response carry.
const size = 100

// callers is how many calls are in flight.
const callers = 64

func main() {
	calls := flag.Int("calls", 50_000, "calls that are counted for each cell")
	where := flag.Int("where", 6, "how many functions to print in which locks were waited for")
	only := flag.String("stack", "", "the only stack to measure: rpc, grpc-go, h2http or net/http")
	flag.Parse()
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	if err := table(*only, *calls, *where); err != nil {
		fmt.Fprintln(os.Stderr, "contention:", err)
		os.Exit(1)
	}
}

// stack is a server and its clients.
type stack struct {
	name  string
	start func() (*running, error)
}

// running is a server that serves and what connects to it.
type running struct {
	connect func() (func() error, error) // a connection; returns what makes a call on it
	stop    func()
}

func table(only string, calls, where int) error {
	stacks := []stack{{"rpc", startRPC}, {"grpc-go", startGRPC}, {"h2http", startH2HTTP}, {"net/http", startNetHTTP}}
	if only != "" {
		stacks = slices.DeleteFunc(stacks, func(s stack) bool { return s.name != only })
	}
	fmt.Printf("%s, %d processors, %d callers, %d bytes each way, %d calls a cell. Of each call: locks found taken / waits on channels.\n\n",
		runtime.Version(), runtime.NumCPU(), callers, size, calls)
	fmt.Print("| GOMAXPROCS | connections |")
	for _, s := range stacks {
		fmt.Printf(" %s |", s.name)
	}
	fmt.Printf("\n|---|---|%s\n", strings.Repeat("---|", len(stacks)))
	worst := make(map[string]*cell)
	for _, procs := range []int{2, 4, 8, 16} {
		for _, conns := range []int{1, 8, 64} {
			fmt.Printf("| %d | %d |", procs, conns)
			for _, s := range stacks {
				w, err := measure(s, procs, conns, calls)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				fmt.Printf(" %.3f / %.2f |", float64(w.locks)/float64(calls), float64(w.channels)/float64(calls))
				if old := worst[s.name]; old == nil || w.locks > old.locks {
					worst[s.name] = &cell{w, procs, conns}
				}
			}
			fmt.Println()
		}
	}
	for _, s := range stacks {
		c := worst[s.name]
		sites := c.perCall(calls)
		fmt.Printf("\nWhere %s waits for locks with GOMAXPROCS %d over %d connections, where it waits most, a call:\n\n", s.name, c.procs, c.conns)
		for _, f := range most(sites, where) {
			fmt.Printf("- %.4f %s\n", sites[f], f)
		}
	}
	return nil
}

// cell is what was counted of a stack in one row.
type cell struct {
	*waits
	procs, conns int
}

// most returns the n functions with the most waits.
func most(sites map[string]float64, n int) []string {
	functions := slices.SortedFunc(maps.Keys(sites), func(a, b string) int {
		if sites[a] != sites[b] {
			if sites[a] > sites[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return functions[:min(n, len(functions))]
}

// measure makes calls over conns connections and returns what waited.
func measure(s stack, procs, conns, calls int) (*waits, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	r, err := s.start()
	if err != nil {
		return nil, err
	}
	defer r.stop()
	var all []func() error
	for range conns {
		call, err := r.connect()
		if err != nil {
			return nil, err
		}
		all = append(all, call)
	}
	if err := run(all, calls/10+callers); err != nil { // connections, goroutines and memory are there
		return nil, err
	}
	before := waited()
	if err := run(all, calls); err != nil {
		return nil, err
	}
	return waited().since(before), nil
}

// run makes n calls, each caller on one connection.
func run(all []func() error, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		call := all[i%len(all)]
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// waits is how often goroutines have waited so far.
type waits struct {
	locks, channels int64
	sites           map[string]int64 // the functions in which locks were waited for
}

// waited reads the profile of blocked goroutines, whose rate of 1 counts each wait. Waits for the network are not in it.
func waited() *waits {
	records := make([]runtime.BlockProfileRecord, 1<<12)
	n, ok := runtime.BlockProfile(records)
	for !ok {
		records = make([]runtime.BlockProfileRecord, 2*n)
		n, ok = runtime.BlockProfile(records)
	}
	w := &waits{sites: make(map[string]int64)}
	for i := range records[:n] {
		w.add(&records[i])
	}
	return w
}

func (w *waits) add(r *runtime.BlockProfileRecord) {
	frames := runtime.CallersFrames(r.Stack())
	f, more := frames.Next()
	switch {
	case strings.HasPrefix(f.Function, "runtime.chan") || strings.HasPrefix(f.Function, "runtime.select"):
		w.channels += r.Count
		return
	case !strings.Contains(f.Function, "Mutex)."):
		return
	}
	w.locks += r.Count
	for more && strings.Contains(f.Function, "Mutex).") {
		f, more = frames.Next()
	}
	w.sites[f.Function] += r.Count
}

func (w *waits) since(before *waits) *waits {
	d := &waits{w.locks - before.locks, w.channels - before.channels, make(map[string]int64)}
	for f, n := range w.sites {
		if n -= before.sites[f]; n > 0 {
			d.sites[f] = n
		}
	}
	return d
}

func (w *waits) perCall(calls int) map[string]float64 {
	per := make(map[string]float64)
	for f, n := range w.sites {
		per[f] = float64(n) / float64(calls)
	}
	return per
}

// echo answers with the request's payload.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// caller is what a connection of either gRPC library makes calls with.
type caller interface {
	grpc.ClientConnInterface
	Close() error
}

// server is what both gRPC libraries' servers are.
type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

func startRPC() (*running, error) {
	return startServer(rpc.NewServer(), func(addr string) (caller, error) {
		return rpc.NewClient("passthrough:"+addr, rpc.WithTransportCredentials(insecure.NewCredentials()))
	})
}

func startGRPC() (*running, error) {
	return startServer(grpc.NewServer(), func(addr string) (caller, error) {
		return grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	})
}

func startServer(s server, dial func(addr string) (caller, error)) (*running, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	pb.RegisterTestServiceServer(s, echo{})
	go s.Serve(l)
	var open []caller
	return &running{
		connect: func() (func() error, error) {
			c, err := dial(l.Addr().String())
			if err != nil {
				return nil, err
			}
			open = append(open, c)
			client := pb.NewTestServiceClient(c)
			request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}
			return func() error {
				_, err := client.UnaryCall(context.Background(), request)
				return err
			}, nil
		},
		stop: func() {
			for _, c := range open {
				c.Close()
			}
			s.Stop()
		},
	}, nil
}

func startH2HTTP() (*running, error) {
	return startHTTP(func(srv *http.Server, l net.Listener) { h2http.Serve(l, srv) },
		func() idler { return new(h2http.Transport) })
}

func startNetHTTP() (*running, error) {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return startHTTP(func(srv *http.Server, l net.Listener) {
		srv.Protocols = p
		srv.Serve(l)
	}, func() idler { return &http.Transport{Protocols: p} })
}

// idler is what both http.RoundTrippers are.
type idler interface {
	http.RoundTripper
	CloseIdleConnections()
}

func startHTTP(serve func(*http.Server, net.Listener), transport func() idler) (*running, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, size)
		n, _ := io.ReadFull(r.Body, b)
		w.Write(b[:n])
	})}
	go serve(srv, l)
	var open []idler
	return &running{
		connect: func() (func() error, error) {
			t := transport()
			open = append(open, t)
			return func() error { return post(&http.Client{Transport: t}, "http://"+l.Addr().String()) }, nil
		},
		stop: func() {
			for _, t := range open {
				t.CloseIdleConnections()
			}
			srv.Close()
		},
	}, nil
}

func post(c *http.Client, url string) error {
	resp, err := c.Post(url, "application/octet-stream", bytes.NewReader(make([]byte, size)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && len(b) != size {
		err = fmt.Errorf("%d bytes of %d", len(b), size)
	}
	return err
}
