package bench

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/valyala/bytebufferpool"
	"google.golang.org/grpc/mem"
)

// BenchmarkWriter writes 64 KiB in pieces of the given size and frees what was written.

func BenchmarkWriter(b *testing.B) {
	const total = 64 << 10
	for _, size := range []int{16, 256, 4 << 10} {
		piece := make([]byte, size)
		b.Run(fmt.Sprintf("write=%d", size), func(b *testing.B) {
			runPeers(b, []peer{
				{"tarn", func(b *testing.B) {
					b.SetBytes(total)
					w := tarn.NewWriter(newPool(b))
					var c tarn.Chain
					for b.Loop() {
						for range total / size {
							w.Write(piece)
						}
						w.MoveTo(&c)
						c.Free()
					}
				}},
				{"grpc", grpcWriter(mem.DefaultBufferPool(), piece, total)},
				{"grpc-nozero", grpcWriter(newNozero(), piece, total)},
				{"bytebufferpool", func(b *testing.B) { // one slice: grows by copying
					b.SetBytes(total)
					var p bytebufferpool.Pool
					for b.Loop() {
						buf := p.Get()
						for range total / size {
							buf.Write(piece)
						}
						p.Put(buf)
					}
				}},
				{"make", func(b *testing.B) { // bytes.Buffer, new each time
					b.SetBytes(total)
					for b.Loop() {
						var buf bytes.Buffer
						for range total / size {
							buf.Write(piece)
						}
						escaped = buf.Bytes()
					}
				}},
			})
		})
	}
}

func grpcWriter(p mem.BufferPool, piece []byte, total int) func(b *testing.B) {
	return func(b *testing.B) {
		b.SetBytes(int64(total))
		var s mem.BufferSlice
		for b.Loop() {
			w := mem.NewWriter(&s, p)
			for range total / len(piece) {
				w.Write(piece)
			}
			s.Free()
			clear(s)
			s = s[:0]
		}
	}
}
