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
	"google.golang.org/grpc"
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
	return startFleetOf(t, servers, func() fleetServer { return rpc.NewServer(rpc.WaitForHandlers(true)) })
}

// fleetServer is a server of either side.
type fleetServer interface {
	server
	grpc.ServiceRegistrar
}

func startFleetOf(t testing.TB, servers int, newServer func() fleetServer) *fleet {
	f := &fleet{}
	for range servers {
		s := newServer()
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
		rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(evenly), rpc.WithContextDialer(f.connect))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

const evenly = `{"loadBalancingConfig":[{"round_robin":{}}]}`

func (f *fleet) connect(ctx context.Context, _ string) (net.Conn, error) {
	n := f.dialled.Add(1)
	return new(net.Dialer).DialContext(ctx, "tcp", f.servers[int(n)%len(f.servers)])
}

// dialStock is dial for grpc-go's client.
func (f *fleet) dialStock(t testing.TB, r *manual.Resolver) *grpc.ClientConn {
	cc, err := grpc.NewClient(r.Scheme()+":///fleet", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(evenly), grpc.WithContextDialer(f.connect))
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

// phase is what a fleet does while calls are made.
type phase int32

const (
	connecting phase = iota // its first connections are being made; not measured
	quiet
	changing
	over
)

// TestFleetChangesUnderLoad changes endpoints again and again during calls of 64 callers, who call as fast as
// they can: no call fails. Once a change replaces a hundredth of the endpoints, so that all are replaced in the
// end; once half of them, drawn at random. TARN_LONG=1 makes it 1,000 endpoints and 100 changes, and the same with grpc-go's
// client and servers, and five times the calls: the times that it logs then are for docs/reference/rpc.md.
func TestFleetChangesUnderLoad(t *testing.T) {
	endpoints, changes, sides := 100, 20, []string{"tarn"}
	calls := int64(4000)
	if os.Getenv("TARN_LONG") != "" {
		endpoints, changes, calls, sides = 1000, 100, 20_000, []string{"tarn", "grpc"}
	}
	for _, x := range []struct {
		name  string
		apart int64 // calls from one change to the next, at least
		next  func(i int) []int
	}{
		{"a hundredth", calls / 20, func(i int) (numbers []int) {
			for n := range endpoints {
				numbers = append(numbers, (i+1)*(endpoints/100)+n)
			}
			return numbers
		}},
		{"half", calls / 100, func(int) []int { return rand.Perm(2 * endpoints)[:endpoints] }},
	} {
		for _, side := range sides {
			t.Run(x.name+"/"+side, func(t *testing.T) {
				r := manual.NewBuilderWithScheme("names")
				if side == "tarn" {
					f := startFleet(t, 4)
					r.InitialState(f.state(upTo(endpoints)...))
					changeUnderLoad(t, f, r, f.dial(t, r), changes, calls, x.apart, x.next)
					return
				}
				f := startFleetOf(t, 4, func() fleetServer { return grpc.NewServer(grpc.WaitForHandlers(true)) })
				r.InitialState(f.state(upTo(endpoints)...))
				changeUnderLoad(t, f, r, f.dialStock(t, r), changes, calls, x.apart, x.next)
			})
		}
	}
}

// changeUnderLoad makes the changes that next numbers, after at least so many calls, and at least so many apart.
func changeUnderLoad(t *testing.T, f *fleet, r *manual.Resolver, cc grpc.ClientConnInterface, changes int, before, apart int64, next func(i int) []int) {
	endpoints := int64(len(next(0)))
	c := pb.NewTestServiceClient(cc)
	var now atomic.Int32
	var calls atomic.Int64
	var mu sync.Mutex
	var times [over][]time.Duration
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			var mine [over][]time.Duration
			for {
				in := phase(now.Load())
				if in == over {
					break
				}
				began := time.Now()
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)}); err != nil {
					t.Error(err)
					break
				}
				mine[in] = append(mine[in], time.Since(began))
				calls.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			for in := range mine {
				times[in] = append(times[in], mine[in]...)
			}
		})
	}
	more := func(n int64) {
		for n += calls.Load(); calls.Load() < n && !t.Failed(); {
			waitABit(t)
		}
	}
	for f.dialled.Load() < endpoints && !t.Failed() {
		waitABit(t)
	}
	more(before / 4) // the last handshakes end meanwhile
	now.Store(int32(quiet))
	more(max(before, int64(changes)*apart))
	now.Store(int32(changing))
	began := time.Now()
	for i := range changes {
		r.UpdateState(f.state(next(i)...))
		more(apart)
	}
	took := time.Since(began)
	now.Store(int32(over))
	wg.Wait()
	t.Logf("%d endpoints, %d changes in %v, %d connections: %d calls, p50 and p99 %v and %v quiet (%d calls), %v and %v changing (%d)",
		endpoints, changes, took.Round(time.Millisecond), f.dialled.Load(), calls.Load(), share(times[quiet], 50), share(times[quiet], 99),
		len(times[quiet]), share(times[changing], 50), share(times[changing], 99), len(times[changing]))
}

// share is the time below which a share of the calls, in hundredths, stayed.
func share(ds []time.Duration, hundredths int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[len(ds)*hundredths/100].Round(10 * time.Microsecond)
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

// BenchmarkState is a resolver's state that replaces all of 1,000 endpoints, none of which can be reached: what the balancer and its SubConns
// cost, without connections.
func BenchmarkState(b *testing.B) {
	f := &fleet{}
	r := manual.NewBuilderWithScheme("names")
	states := []resolver.State{f.state(upTo(2000)[:1000]...), f.state(upTo(2000)[1000:]...)}
	r.InitialState(states[0])
	built := make(chan struct{})
	r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { close(built) }
	cc, err := rpc.NewClient(r.Scheme()+":///fleet", rpc.WithResolvers(r), rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultServiceConfig(evenly), rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	if err != nil {
		b.Fatal(err)
	}
	defer cc.Close()
	cc.Connect()
	<-built
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		r.UpdateState(states[n%2])
	}
}
