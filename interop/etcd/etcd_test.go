package etcd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	etcdresolver "go.etcd.io/etcd/client/v3/naming/resolver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/turn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// cluster is a running etcd.
type cluster struct{ addrs []string }

// start runs an etcd of two members on loopback until the test ends.
func start(t testing.TB) *cluster {
	t.Helper()
	leftout.Need(t, "etcd-server", "etcd")
	path, err := leftout.Path("etcd")
	if err != nil {
		t.Fatal(err)
	}
	var peers, initial []string
	c := &cluster{}
	for i := range 2 {
		c.addrs, peers = append(c.addrs, freeAddr(t)), append(peers, freeAddr(t))
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	for i := range 2 {
		cmd := exec.Command(path, "--name", fmt.Sprintf("m%d", i), "--data-dir", t.TempDir(),
			"--listen-client-urls", "http://"+c.addrs[i], "--advertise-client-urls", "http://"+c.addrs[i],
			"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", t.Name(), "--log-level", "error", "--unsafe-no-fsync")
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		})
	}
	return c
}

func freeAddr(t testing.TB) string {
	t.Helper()
	p, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p.Addr()
}

// over is an etcd client whose calls are made by a Tarn client that knows both members.
func (c *cluster) over(t testing.TB, pool *tarn.Pool) (*clientv3.Client, *rpc.ClientConn) {
	t.Helper()
	r := manual.NewBuilderWithScheme("members")
	var s resolver.State
	for _, a := range c.addrs {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	r.InitialState(s)
	cc, err := rpc.NewClient("members:///etcd", rpc.WithResolvers(r), rpc.WithPool(pool),
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return c.client(t, rpc.DialOptions(cc)...), cc
}

func (c *cluster) client(t testing.TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{Endpoints: c.addrs, DialTimeout: 30 * time.Second, DialOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ready waits until the cluster has a leader.
func ready(t testing.TB, cl *clientv3.Client) {
	t.Helper()
	ctx := bounded(t)
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := cl.Put(one, "ready", "yes")
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd has no leader: %v", err)
		}
	}
}

// TestClient makes each kind of request that etcd's client has.
func TestClient(t *testing.T) {
	c := start(t)
	cl, cc := c.over(t, tarntest.NewPool(t))
	ready(t, cl)
	ctx := bounded(t)
	t.Run("put and get", func(t *testing.T) {
		for i := range 50 {
			k := fmt.Sprintf("k/%03d", i)
			if _, err := cl.Put(ctx, k, strings.Repeat("v", i*100)); err != nil {
				t.Fatal(err)
			}
			if r, err := cl.Get(ctx, k); err != nil || len(r.Kvs) != 1 || len(r.Kvs[0].Value) != i*100 {
				t.Fatalf("%v, %v", r, err)
			}
		}
		if r, err := cl.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)); err != nil || len(r.Kvs) != 50 || string(r.Kvs[0].Key) != "k/049" {
			t.Fatalf("%v, %v", r, err)
		}
	})
	t.Run("txn", func(t *testing.T) {
		r, err := cl.Txn(ctx).If(clientv3.Compare(clientv3.Version("k/000"), "=", 1)).
			Then(clientv3.OpPut("k/000", "then")).Else(clientv3.OpPut("k/000", "else")).Commit()
		if err != nil || !r.Succeeded {
			t.Fatalf("%v, %v", r, err)
		}
	})
	t.Run("watch", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := cl.Watch(ctx, "w/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-w
		const n = 200
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range n {
				if _, err := cl.Put(ctx, fmt.Sprintf("w/%d", i), "x"); err != nil {
					t.Error(err)
					return
				}
			}
		})
		seen := 0
		for seen < n {
			r, ok := <-w
			if !ok || r.Err() != nil {
				t.Fatalf("the watch ended after %d events: %v", seen, r.Err())
			}
			seen += len(r.Events)
		}
		wg.Wait()
	})
	t.Run("lease", func(t *testing.T) {
		l, err := cl.Grant(ctx, 60)
		if err != nil {
			t.Fatal(err)
		}
		keep, err := cl.KeepAlive(ctx, l.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r := <-keep; r == nil || r.TTL != 60 {
			t.Fatalf("keep-alive: %v", r)
		}
		if _, err := cl.Put(ctx, "leased", "v", clientv3.WithLease(l.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.Revoke(ctx, l.ID); err != nil {
			t.Fatal(err)
		}
		if r, err := cl.Get(ctx, "leased"); err != nil || r.Count != 0 {
			t.Fatalf("%v, %v", r, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		if _, err := cl.Revoke(ctx, 1); err == nil || !strings.Contains(err.Error(), "lease not found") {
			t.Error(err)
		}
	})
	if err := cl.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("the client after etcd's Close: %v", err)
	}
}

// TestResolver finds the backends of a service in etcd, with etcd's resolver, while backends
// are added and removed under load.
func TestResolver(t *testing.T) {
	c := start(t)
	cl := c.client(t)
	ready(t, cl)
	ctx := bounded(t)
	em, err := endpoints.NewManager(cl, "svc")
	if err != nil {
		t.Fatal(err)
	}
	builder, err := etcdresolver.NewBuilder(cl)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := rpc.NewClient("etcd:///svc", rpc.WithResolvers(builder), rpc.WithPool(tarntest.NewPool(t)),
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	var addrs []string
	for range 5 {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		healthpb.RegisterHealthServer(s, health.NewServer())
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(lis)
		t.Cleanup(s.Stop)
		addrs = append(addrs, lis.Addr().String())
	}
	set := func(i int, f func(string) error) {
		if err := f("svc/" + addrs[i]); err != nil {
			t.Fatal(err)
		}
	}
	add := func(i int) {
		set(i, func(key string) error { return em.AddEndpoint(ctx, key, endpoints.Endpoint{Addr: addrs[i]}) })
	}
	remove := func(i int) { set(i, func(key string) error { return em.DeleteEndpoint(ctx, key) }) }
	add(0)
	add(1)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 30 {
		add((i + 2) % 5)
		remove(i % 5)
	}
	stop.Store(true)
	wg.Wait()
}

// BenchmarkPutGet is a put and a get of 100 bytes by eight callers a processor, by etcd's client as it is, and over a Tarn client.
// Allocations and cpu-us/op, processor time, are the client's: etcd runs in separate processes.
func BenchmarkPutGet(b *testing.B) { putAndGet(b, 8) }

// BenchmarkPutGetBusy is BenchmarkPutGet with 32 callers a processor.
func BenchmarkPutGetBusy(b *testing.B) { putAndGet(b, 32) }

func putAndGet(b *testing.B, callers int) {
	c := start(b)
	run := func(name string, cl *clientv3.Client) {
		ready(b, cl)
		b.Run("peer="+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(callers)
			value := strings.Repeat("v", 100)
			var n atomic.Int64
			before := cputime.Used()
			b.RunParallel(func(p *testing.PB) {
				key := fmt.Sprintf("bench/%d", n.Add(1))
				for p.Next() {
					if _, err := cl.Put(context.Background(), key, value); err != nil {
						b.Error(err)
						return
					}
					if _, err := cl.Get(context.Background(), key, clientv3.WithSerializable()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
	for _, peer := range turn.Order("grpc", "tarn") {
		switch peer {
		case "grpc":
			run(peer, c.client(b))
		case "tarn":
			over, _ := c.over(b, tarn.Shared())
			run(peer, over)
		}
	}
}

// TestGateway serves JSON over HTTP with grpc-gateway's generated handlers for etcd, whose
// backend is etcd itself, over AsGRPC.
func TestGateway(t *testing.T) {
	c := start(t)
	cl, cc := c.over(t, tarntest.NewPool(t))
	ready(t, cl)
	mux := runtime.NewServeMux()
	if err := gw.RegisterKVHandler(bounded(t), mux, rpc.AsGRPC(cc)); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	post := func(path, body string) string {
		r, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %s, %v", path, r.Status, b, err)
		}
		return string(b)
	}
	post("/v3/kv/put", `{"key":"Zm9v","value":"YmFy"}`)
	if got := post("/v3/kv/range", `{"key":"Zm9v"}`); !strings.Contains(got, `"YmFy"`) {
		t.Error(got)
	}
}

// BenchmarkGateway gets a value of 100 bytes through grpc-gateway's handler, without a server for HTTP in front of it.
// Allocations and cpu-us/op, processor time, are the gateway's.
func BenchmarkGateway(b *testing.B) {
	c := start(b)
	cl := c.client(b)
	ready(b, cl)
	if _, err := cl.Put(context.Background(), "k", strings.Repeat("v", 100)); err != nil {
		b.Fatal(err)
	}
	stock, err := grpc.NewClient(c.addrs[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stock.Close() })
	cc, err := rpc.NewClient(c.addrs[0], rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cc.Close() })
	conns := map[string]*grpc.ClientConn{"grpc": stock, "tarn": rpc.AsGRPC(cc)}
	for _, peer := range turn.Order("grpc", "tarn") {
		mux := runtime.NewServeMux()
		if err := gw.RegisterKVHandler(bounded(b), mux, conns[peer]); err != nil {
			b.Fatal(err)
		}
		b.Run("peer="+peer, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			before := cputime.Used()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					w := httptest.NewRecorder()
					mux.ServeHTTP(w, httptest.NewRequest("POST", "/v3/kv/range", strings.NewReader(`{"key":"aw==","serializable":true}`)))
					if w.Code != http.StatusOK {
						b.Errorf("status %d", w.Code)
						return
					}
				}
			})
			b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
