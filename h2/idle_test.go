package h2

import (
	"runtime"
	"sync"
	"testing"

	"context"

	"github.com/tarn-go/tarn"
)

// BenchmarkIdle is the memory of a pair of idle connections after a few calls, heap
// and stacks, without what the net package and the kernel hold.
func BenchmarkIdle(b *testing.B) {
	const n = 500
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var wg sync.WaitGroup
		var conns []*Conn
		var before, after runtime.MemStats
		h := newHandServer(b, 2)
		collect(&before)
		for range n {
			a, z := tcpWiring(b)
			c, err := NewClient(a, quickClient{}, Config{Pool: pool})
			if err != nil {
				b.Fatal(err)
			}
			s, err := NewServer(z, h, Config{Pool: pool})
			if err != nil {
				b.Fatal(err)
			}
			wg.Add(2)
			go func() { defer wg.Done(); c.Run() }()
			go func() { defer wg.Done(); s.Run() }()
			conns = append(conns, c, s)
			w := &waiter{done: make(chan error, 1)}
			for range 3 {
				if err := callOnce(c, w, context.Background(), make([]byte, 100)); err != nil {
					b.Fatal(err)
				}
			}
		}
		for range 3 {
			collect(&after)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(2*n), "heap-B/conn")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/(2*n), "stack-B/conn")
		for _, c := range conns {
			c.Close()
		}
		wg.Wait()
	}
}

func collect(m *runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(m)
}
