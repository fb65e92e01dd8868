package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bytedance/gopkg/lang/mcache"
	libp2p "github.com/libp2p/go-buffer-pool"
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"github.com/tarn-go/tarn/internal/ladder"
	"github.com/valyala/bytebufferpool"
	"google.golang.org/grpc/mem"
)

func newPool(b *testing.B) *tarn.Pool {
	b.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "bench", Check: tarn.CheckOff})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// peer is one contestant of a benchmark.
type peer struct {
	name string
	run  func(b *testing.B)
}

func runPeers(b *testing.B, peers []peer) {
	b.Helper()
	for _, p := range peers {
		b.Run("peer="+p.name, func(b *testing.B) {
			b.ReportAllocs()
			p.run(b)
		})
	}
}

// BenchmarkGetFree takes one buffer and frees it.
func BenchmarkGetFree(b *testing.B) {
	for _, size := range []int{256, 4 << 10, 32 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { runPeers(b, getFreePeers(size)) })
	}
}

func getFreePeers(size int) []peer {
	return []peer{
		{"tarn", func(b *testing.B) {
			p := newPool(b)
			for range b.N {
				p.Get(size).Free()
			}
		}},
		{"make", func(b *testing.B) {
			for range b.N {
				escaped = make([]byte, size)
			}
		}},
		{"syncpool", func(b *testing.B) {
			p := sizedSyncPool(size)
			for range b.N {
				p.Put(p.Get().(*[]byte))
			}
		}},
		{"grpc", func(b *testing.B) {
			p := mem.DefaultBufferPool()
			for range b.N {
				mem.NewBuffer(p.Get(size), p).Free()
			}
		}},
		{"grpc-nozero", func(b *testing.B) {
			p := newNozero()
			for range b.N {
				mem.NewBuffer(p.Get(size), p).Free()
			}
		}},
		{"bytebufferpool", func(b *testing.B) {
			var p bytebufferpool.Pool
			for range b.N {
				buf := p.Get()
				if cap(buf.B) < size {
					buf.B = make([]byte, size)
				}
				buf.B = buf.B[:size]
				p.Put(buf)
			}
		}},
		{"libp2p", func(b *testing.B) {
			var p libp2p.BufferPool
			for range b.N {
				p.Put(p.Get(size))
			}
		}},
		{"mcache", func(b *testing.B) {
			for range b.N {
				mcache.Free(mcache.Malloc(size))
			}
		}},
	}
}

func sizedSyncPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

// escaped makes a slice escape to the heap, as slices do in programs that pass them on.
var escaped []byte

// BenchmarkSplit takes 32 KiB, splits it in half and frees both halves, as the benchmark of grpc-go
// #8784 does.
func BenchmarkSplit(b *testing.B) {
	const size = 32 << 10
	grpcSplit := func(p mem.BufferPool) func(b *testing.B) {
		return func(b *testing.B) {
			for range b.N {
				buf := mem.NewBuffer(p.Get(size), p)
				left, right := mem.SplitUnsafe(buf, size/2)
				left.Free()
				right.Free()
			}
		}
	}
	runPeers(b, []peer{
		{"tarn", func(b *testing.B) {
			p := newPool(b)
			for range b.N {
				head, tail := p.Get(size).Split(size / 2)
				head.Free()
				tail.Free()
			}
		}},
		{"grpc", grpcSplit(mem.DefaultBufferPool())},
		{"grpc-nozero", grpcSplit(newNozero())},
		{"syncpool", func(b *testing.B) { // a split without a count
			p := sizedSyncPool(size)
			for range b.N {
				buf := p.Get().(*[]byte)
				head, tail := (*buf)[:size/2], (*buf)[size/2:]
				sink += len(head) - len(tail)
				p.Put(buf)
			}
		}},
		{"added", func(b *testing.B) { // a split with a count, changed once by each Free, and no generation
			p := sync.Pool{New: func() any { return newCounted(size) }}
			for range b.N {
				c := p.Get().(*counted)
				head, tail := c.mem[:size/2], c.mem[size/2:]
				sink += len(head) - len(tail)
				for range 2 {
					if c.word.Add(1)&1 == 0 {
						p.Put(c)
					}
				}
			}
		}},
		{"counted", func(b *testing.B) { // a split with a count and a generation, and nothing else
			p := sync.Pool{New: func() any { return newCounted(size) }}
			for range b.N {
				c := p.Get().(*counted)
				generation := c.generation()
				c.ref(generation)
				head, tail := c.mem[:size/2], c.mem[size/2:]
				sink += len(head) - len(tail)
				for range 2 {
					if c.free(generation) {
						p.Put(c)
					}
				}
			}
		}},
	})
}

// counted is memory with the least state that detects a stale reference: a word of count and generation,
// which takes one atomic operation for each reference beyond the first and one for each Free.
type counted struct {
	word atomic.Uint64 // generation, and the count in the lower half; 1 while it is free
	mem  []byte
}

func newCounted(size int) *counted {
	c := &counted{mem: make([]byte, size)}
	c.word.Store(1)
	return c
}

const countBits = 32

func (c *counted) generation() uint32 { return uint32(c.word.Load() >> countBits) }

// ref adds a reference. It panics if generation is over.
func (c *counted) ref(generation uint32) {
	if uint32(c.word.Add(1)>>countBits) != generation {
		panic("a reference was used after its Free")
	}
}

// free ends a reference and reports whether it was the last one. It panics if generation is over.
func (c *counted) free(generation uint32) (last bool) {
	for {
		w := c.word.Load()
		if uint32(w>>countBits) != generation {
			panic("a reference was freed twice")
		}
		next := w - 1
		if last = uint32(w) == 1; last {
			next = uint64(generation+1)<<countBits | 1
		}
		if c.word.CompareAndSwap(w, next) {
			return last
		}
	}
}

// BenchmarkLookup finds the size class of each length from 0 to 2^19-1, as in grpc-go #8775: one
// operation is all of them. side=get is the lookup of Get; side=both is that of Get and Free together:
// grpc-go looks up again, by the capacity of what comes back, where Tarn's memory knows its class.
// Either side's lookup is compiled into the loop, as it is into Get.
func BenchmarkLookup(b *testing.B) {
	classes := ladder.New(tarn.DefaultClasses(), func(size int) *int { return &size })
	tarnGet := func(b *testing.B) {
		for b.Loop() {
			sink += lookUpTarn(classes)
		}
	}
	grpc := newGRPCTable(8, 12, 14, 15, 20)
	b.Run("side=get", func(b *testing.B) {
		runPeers(b, []peer{{"tarn", tarnGet}, {"grpc", func(b *testing.B) {
			for b.Loop() {
				sink += lookUpGRPC(grpc)
			}
		}}})
	})
	b.Run("side=both", func(b *testing.B) {
		runPeers(b, []peer{{"tarn", tarnGet}, {"grpc", func(b *testing.B) {
			for b.Loop() {
				sink += lookUpGRPCTwice(grpc)
			}
		}}})
	})
}

const lookUps = 1 << 19

// The loops of BenchmarkLookup are separate functions: inside the benchmark's loop the compiler keeps the sum
// in memory, and the benchmark would measure that addition, on either side.

func lookUpTarn(classes *ladder.Ladder[*int]) (sum int) {
	for n := range lookUps {
		if classes.Within(n) {
			sum += classes.Find(n).Size
		}
	}
	return sum
}

func lookUpGRPC(t *grpcTable) (sum int) {
	for n := range lookUps {
		if tier := t.forGet(n); tier != nil {
			sum += tier.size()
		}
	}
	return sum
}

func lookUpGRPCTwice(t *grpcTable) (sum int) {
	for n := range lookUps {
		if tier := t.forGet(n); tier != nil {
			sum += tier.size()
		}
		if tier := t.forPut(n); tier != nil {
			sum += tier.size()
		}
	}
	return sum
}

// BenchmarkAdapt shows what the adapters add to the bare pool.
func BenchmarkAdapt(b *testing.B) {
	const size = 32 << 10
	runPeers(b, []peer{
		{"tarn", func(b *testing.B) {
			p := newPool(b)
			for range b.N {
				p.Get(size).Free()
			}
		}},
		{"adapt-grpc", func(b *testing.B) {
			p := adapt.GRPC(newPool(b))
			for range b.N {
				p.Put(p.Get(size))
			}
		}},
		{"adapt-httputil", func(b *testing.B) {
			p := adapt.HTTPUtil(newPool(b), size)
			for range b.N {
				p.Put(p.Get())
			}
		}},
		{"adapt-arrow", func(b *testing.B) { // zeroes, as Arrow's own allocators do
			p := adapt.Arrow(newPool(b))
			for range b.N {
				p.Free(p.Allocate(size))
			}
		}},
		{"grpc", func(b *testing.B) {
			p := mem.DefaultBufferPool()
			for range b.N {
				p.Put(p.Get(size))
			}
		}},
		{"syncpool", func(b *testing.B) {
			p := sizedSyncPool(size)
			for range b.N {
				p.Put(p.Get().(*[]byte))
			}
		}},
	})
}
