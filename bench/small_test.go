package bench

import (
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/mem"
)

// BenchmarkSmall is the reuse benchmark of jsign/bufpool: one buffer taken and given back, from shards
// of twice its size there and from an arena with chunks of 64 KiB here.
func BenchmarkSmall(b *testing.B) {
	for _, size := range []int{4, 64, 512, 16384} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			runPeers(b, []peer{
				{"tarn", func(b *testing.B) {
					a := tarn.NewArena(newPool(b), 64<<10)
					defer a.Free()
					for b.Loop() {
						a.Get(size).Free()
					}
				}},
				{"tarn-pool", func(b *testing.B) {
					p := newPool(b)
					for b.Loop() {
						p.Get(size).Free()
					}
				}},
				{"shards", func(b *testing.B) {
					p := newShards(2 * size)
					for b.Loop() {
						p.get(size).done()
					}
				}},
				{"make", func(b *testing.B) {
					for b.Loop() {
						escaped = make([]byte, size)
					}
				}},
				{"grpc", func(b *testing.B) {
					p := mem.DefaultBufferPool()
					for b.Loop() {
						p.Put(p.Get(size))
					}
				}},
			})
		})
	}
}

// BenchmarkChaos is the scenario of jsign/bufpool: 100 goroutines, each taking about 10 bytes (normally
// distributed) at a time. One operation is one buffer taken and given back. There, a buffer is held for a sleep of a microsecond
// (hold=sleep), which is most of what is measured; hold=yield lets the others run instead, and
// hold=none measures the allocators alone. Shards are of 100 bytes, as there.
func BenchmarkChaos(b *testing.B) {
	for _, hold := range []struct {
		name string
		run  func()
	}{
		{"none", func() {}},
		{"yield", runtime.Gosched},
		{"sleep", func() { time.Sleep(time.Microsecond) }},
	} {
		b.Run("hold="+hold.name, func(b *testing.B) {
			runPeers(b, []peer{
				{"tarn", func(b *testing.B) {
					a := tarn.NewArena(newPool(b), 64<<10)
					defer a.Free()
					chaos(b, func(n int) {
						buf := a.Get(n)
						hold.run()
						buf.Free()
					})
				}},
				{"shards", func(b *testing.B) {
					p := newShards(100)
					chaos(b, func(n int) {
						buf := p.get(n)
						hold.run()
						buf.done()
					})
				}},
				{"make", func(b *testing.B) {
					chaos(b, func(n int) {
						buf := make([]byte, n)
						hold.run()
						runtime.KeepAlive(buf)
					})
				}},
			})
		})
	}
}

// chaos shares b.N calls of use out among 100 goroutines.
func chaos(b *testing.B, use func(n int)) {
	const workers = 100
	var sizes [workers][256]int
	for i := range sizes {
		r := rand.New(rand.NewSource(int64(i)))
		for j := range sizes[i] {
			sizes[i][j] = max(0, int(r.NormFloat64())+10)
		}
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range workers {
		n := b.N / workers
		if i < b.N%workers {
			n++
		}
		wg.Go(func() {
			<-start
			for j := range n {
				use(sizes[i][j&255])
			}
		})
	}
	b.ResetTimer()
	close(start)
	wg.Wait()
}
