package bench

import (
	"fmt"
	"testing"

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
					for range b.N {
						a.Get(size).Free()
					}
				}},
				{"tarn-pool", func(b *testing.B) {
					p := newPool(b)
					for range b.N {
						p.Get(size).Free()
					}
				}},
				{"shards", func(b *testing.B) {
					p := newShards(2 * size)
					for range b.N {
						p.get(size).done()
					}
				}},
				{"shards-lean", func(b *testing.B) {
					p := newShards(2 * size)
					for range b.N {
						p.getLean(size).done()
					}
				}},
				{"make", func(b *testing.B) {
					for range b.N {
						escaped = make([]byte, size)
					}
				}},
				{"grpc", func(b *testing.B) {
					p := mem.DefaultBufferPool()
					for range b.N {
						p.Put(p.Get(size))
					}
				}},
			})
		})
	}
}
