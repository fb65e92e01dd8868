package rpc_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// fleet is a set of addresses that a dialer maps to a few servers.
type fleet struct {
	servers []string
	dialled atomic.Int64
}

func startFleet(t testing.TB, servers int) *fleet {
	f := &fleet{}
	for range servers {
		s := rpc.NewServer(rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		f.servers = append(f.servers, serve(t, s))
	}
	return f
}

func (f *fleet) state(numbers ...int) resolver.State {
	var s resolver.State
	for _, n := range numbers {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: fmt.Sprint("member-", n)}}})
	}
	return s
}

func (f *fleet) dial(t testing.TB, r *manual.Resolver) *rpc.ClientConn {
	cc, err := rpc.NewClient(r.Scheme()+":///fleet", rpc.WithResolvers(r), rpc.WithPool(tarn.Shared()),
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			n := f.dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", f.servers[int(n)%len(f.servers)])
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestFleetChangesUnderLoad changes half of many endpoints again and again during calls of 64 callers: no
// call fails. TARN_LONG=1 makes it 1,000 endpoints and 100 changes.
func TestFleetChangesUnderLoad(t *testing.T) {
	endpoints, changes := 100, 20
	if os.Getenv("TARN_LONG") != "" {
		endpoints, changes = 1000, 100
	}
	f := startFleet(t, 4)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(f.state(upTo(endpoints)...))
	cc := f.dial(t, r)
	c := pb.NewTestServiceClient(cc)
	var mu sync.Mutex
	var quiet, changing []time.Duration
	var moving, stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			var mine [2][]time.Duration
			for !stop.Load() {
				which := 0
				if moving.Load() {
					which = 1
				}
				began := time.Now()
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)}); err != nil {
					t.Error(err)
					return
				}
				mine[which] = append(mine[which], time.Since(began))
				calls.Add(1)
			}
			mu.Lock()
			quiet, changing = append(quiet, mine[0]...), append(changing, mine[1]...)
			mu.Unlock()
		})
	}
	more := func(n int64) {
		for n += calls.Load(); calls.Load() < n && !t.Failed(); {
			waitABit(t)
		}
	}
	for f.dialled.Load() < int64(endpoints) && !t.Failed() {
		waitABit(t)
	}
	more(5000)
	moving.Store(true)
	for range changes {
		numbers := rand.Perm(2 * endpoints)[:endpoints]
		r.UpdateState(f.state(numbers...))
		more(200)
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d endpoints, %d changes, %d connections: %d calls, p99 %v quiet, %v changing",
		endpoints, changes, f.dialled.Load(), calls.Load(), p99(quiet), p99(changing))
}

func p99(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[len(ds)*99/100]
}

// BenchmarkPick is the balancer's part of a call: round_robin over one and over 1,000
// ready connections, 64 callers.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := startFleet(b, 4)
			r := manual.NewBuilderWithScheme("names")
			r.InitialState(f.state(upTo(n)...))
			cc := f.dial(b, r)
			c := pb.NewTestServiceClient(cc)
			for f.dialled.Load() < int64(n) {
				if _, err := c.EmptyCall(context.Background(), &pb.Empty{}); err != nil {
					b.Fatal(err)
				}
			}
			pick := rpc.Picker(cc)
			b.ReportAllocs()
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				info := balancer.PickInfo{FullMethodName: pb.TestService_EmptyCall_FullMethodName, Ctx: context.Background()}
				for p.Next() {
					if _, err := pick(info); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
