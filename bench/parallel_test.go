package bench

import (
	"fmt"
	"testing"

	"github.com/bytedance/gopkg/lang/mcache"
	libp2p "github.com/libp2p/go-buffer-pool"
	"github.com/tarn-go/tarn"
	"github.com/valyala/bytebufferpool"
	"google.golang.org/grpc/mem"
)

// holder is what a goroutine of a benchmark takes buffers with. take gets n bytes and returns them
// with what is needed to give them back; both sides go through the same interface, so its cost is
// the same for every peer. Each goroutine has its own holder.
type holder interface {
	take(i, n int) []byte // into slot i
	free(i int)           // what slot i holds
}

// holders makes a peer's holders, each with a number of slots, for buffers of up to largest bytes.
type holders struct {
	name string
	make func(b *testing.B, largest int) func(slots int) holder
}

// slots is a holder for a pool whose buffers are of type T.
type slots[T any] struct {
	held []T
	get  func(n int) T
	put  func(T)
	data func(T) []byte
}

func (s *slots[T]) take(i, n int) []byte {
	s.held[i] = s.get(n)
	return s.data(s.held[i])
}

func (s *slots[T]) free(i int) {
	v := s.held[i]
	// A handle that stays in the slice would keep the memory from being collected.
	var none T
	s.held[i] = none
	s.put(v)
}

func slotsOf[T any](get func(n int) T, put func(T), data func(T) []byte) func(int) holder {
	return func(n int) holder { return &slots[T]{make([]T, n), get, put, data} }
}

func same(b []byte) []byte { return b }

func freeTarn(b tarn.Buffer)       { b.Free() }
func bytesOf(b tarn.Buffer) []byte { return b.Bytes() }

func allHolders() []holders {
	return []holders{
		{"tarn", func(b *testing.B, _ int) func(int) holder {
			return slotsOf(newPool(b).Get, freeTarn, bytesOf)
		}},
		{"make", func(*testing.B, int) func(int) holder {
			return slotsOf(func(n int) []byte { return make([]byte, n) }, func([]byte) {}, same)
		}},
		{"syncpool", func(_ *testing.B, largest int) func(int) holder {
			p := sizedSyncPool(largest)
			return slotsOf(
				func(int) *[]byte { return p.Get().(*[]byte) },
				func(b *[]byte) { p.Put(b) },
				func(b *[]byte) []byte { return *b })
		}},
		{"grpc", func(*testing.B, int) func(int) holder { return grpcHolder(mem.DefaultBufferPool()) }},
		{"grpc-nozero", func(*testing.B, int) func(int) holder { return grpcHolder(newNozero()) }},
		{"bytebufferpool", func(*testing.B, int) func(int) holder {
			p := new(bytebufferpool.Pool)
			return slotsOf(func(n int) *bytebufferpool.ByteBuffer {
				buf := p.Get()
				if cap(buf.B) < n {
					buf.B = make([]byte, n)
				}
				buf.B = buf.B[:n]
				return buf
			}, p.Put, func(b *bytebufferpool.ByteBuffer) []byte { return b.B })
		}},
		{"libp2p", func(*testing.B, int) func(int) holder {
			p := new(libp2p.BufferPool)
			return slotsOf(p.Get, p.Put, same)
		}},
		{"mcache", func(*testing.B, int) func(int) holder {
			return slotsOf(func(n int) []byte { return mcache.Malloc(n) }, mcache.Free, same)
		}},
	}
}

func grpcHolder(p mem.BufferPool) func(int) holder {
	return slotsOf(
		func(n int) mem.Buffer { return mem.NewBuffer(p.Get(n), p) },
		mem.Buffer.Free,
		mem.Buffer.ReadOnlyData)
}

// BenchmarkParallel takes and frees buffers on every processor at once, touching one byte of each
// cache line at both ends, four of them held at a time.
func BenchmarkParallel(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			for _, h := range allHolders() {
				b.Run("peer="+h.name, func(b *testing.B) {
					b.ReportAllocs()
					newHolder := h.make(b, size)
					b.RunParallel(func(pb *testing.PB) {
						parallel(newHolder(4), size, pb.Next)
					})
				})
			}
		})
	}
}

func parallel(h holder, size int, next func() bool) {
	for i := range 4 {
		h.take(i, size)
	}
	for i := 0; next(); i++ {
		h.free(i & 3)
		data := h.take(i&3, size)
		data[0]++
		data[len(data)-1]++
	}
	for i := range 4 {
		h.free(i)
	}
}
