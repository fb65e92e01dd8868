package rpc

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

var (
	sizes   = [...]int{100, 1 << 10, 16 << 10, 64 << 10, 1 << 20}
	callers = [...]int{1, 8, 64}
)

// start listens on a free port of the loopback interface, has p serve there, and connects a client.
func start(tb testing.TB, p peer, sec security) client {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p.serve(tb, l, sec)
	return p.client(tb, l.Addr().String(), sec)
}

// BenchmarkUnary makes calls over one connection.
func BenchmarkUnary(b *testing.B) {
	matrix(b, unary)
}

func unary(_ context.Context, c client) (caller, error) { return c.unary, nil }

// BenchmarkStream sends messages in both directions, each caller on a separate stream, all streams on one
// connection.
func BenchmarkStream(b *testing.B) {
	matrix(b, stream)
}

func stream(ctx context.Context, c client) (caller, error) {
	call, err := c.stream(ctx)
	return func(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) { return call(req) }, err
}

// caller makes one call.
type caller func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)

// matrix runs all peers over sizes, numbers of callers and securities.
func matrix(b *testing.B, open func(context.Context, client) (caller, error)) {
	for _, sec := range securities(b) {
		for _, size := range sizes {
			for _, n := range callers {
				b.Run(fmt.Sprintf("tls=%s/size=%d/callers=%d", sec.name, size, n), func(b *testing.B) {
					for _, p := range peers() {
						b.Run("peer="+p.name, func(b *testing.B) { drive(b, start(b, p, sec), n, size, open) })
					}
				})
			}
		}
	}
}

// drive distributes b.N calls among n callers, at least four to each: with fewer, only the warm-up would be measured.
func drive(b *testing.B, c client, n, size int, open func(context.Context, client) (caller, error)) {
	b.ReportAllocs() // the figures themselves are reported below
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := make([]caller, n)
	reqs := make([]*pb.SimpleRequest, n)
	for i := range calls {
		var err error
		if calls[i], err = open(ctx, c); err != nil {
			b.Fatal(err)
		}
		reqs[i] = request(size)
		// The first calls connect and grow buffers.
		if err := once(ctx, calls[i], reqs[i], size); err != nil {
			b.Fatal(err)
		}
	}
	took := make([]time.Duration, max(b.N, 4*n))
	errs := make([]error, n)
	var before, after runtime.MemStats
	var wg sync.WaitGroup
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i, call := range calls {
		mine := took[i*len(took)/n : (i+1)*len(took)/n]
		wg.Go(func() { errs[i] = repeat(ctx, call, reqs[i], size, mine) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	for i, err := range errs {
		if err != nil {
			b.Fatalf("caller %d: %v", i, err)
		}
	}
	slices.Sort(took)
	done := float64(len(took))
	b.ReportMetric(float64(elapsed.Nanoseconds())/done, "ns/op")
	b.ReportMetric(done/elapsed.Seconds(), "calls/s")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/done, "allocs/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/done, "B/op")
}

// repeat calls once for each element of took, and notes there how long that took.
func repeat(ctx context.Context, call caller, req *pb.SimpleRequest, size int, took []time.Duration) error {
	for i := range took {
		start := time.Now()
		if err := once(ctx, call, req, size); err != nil {
			return err
		}
		took[i] = time.Since(start)
	}
	return nil
}

func once(ctx context.Context, call caller, req *pb.SimpleRequest, size int) error {
	resp, err := call(ctx, req)
	if err != nil {
		return err
	}
	return checkSize(resp, size)
}
