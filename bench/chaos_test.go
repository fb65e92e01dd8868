package bench

import (
	"math/rand"
	"runtime"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

// BenchmarkChaos is the scenario of jsign/bufpool: 100 goroutines, each taking about 10 bytes
// (normally distributed) at a time. One operation is one buffer taken and given back. There, a buffer
// is held while its goroutine sleeps for a microsecond, which is most of what is measured; here,
// hold=yield lets the other goroutines run instead, and hold=none measures the allocators alone.
// Shards are of 100 bytes, as there.
func BenchmarkChaos(b *testing.B) {
	for _, hold := range []struct {
		name string
		run  func()
	}{
		{"none", func() {}},
		{"yield", runtime.Gosched},
	} {
		b.Run("hold="+hold.name, func(b *testing.B) {
			runPeers(b, []peer{
				{"tarn", func(b *testing.B) {
					a := tarn.NewArena(newPool(b), 64<<10)
					defer a.Free()
					chaos(b, func(n int, _ *[]byte) {
						buf := a.Get(n)
						hold.run()
						buf.Free()
					})
				}},
				{"shards", func(b *testing.B) {
					p := newShards(100)
					chaos(b, func(n int, _ *[]byte) {
						buf := p.get(n)
						hold.run()
						buf.done()
					})
				}},
				{"shards-lean", func(b *testing.B) {
					p := newShards(100)
					chaos(b, func(n int, _ *[]byte) {
						buf := p.getLean(n)
						hold.run()
						buf.done()
					})
				}},
				{"make", func(b *testing.B) {
					chaos(b, func(n int, keep *[]byte) {
						*keep = make([]byte, n)
						hold.run()
						*keep = nil
					})
				}},
			})
		})
	}
}

// chaos shares b.N calls of use out among 100 goroutines. What use keeps in its second argument is
// on the heap.
func chaos(b *testing.B, use func(n int, keep *[]byte)) {
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
		keep := new([]byte)
		wg.Go(func() {
			<-start
			for j := range n {
				use(sizes[i][j&255], keep)
			}
		})
	}
	b.ResetTimer()
	close(start)
	wg.Wait()
}
