package bench

import (
	"context"
	"fmt"
	"sync"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/mem"
)

// runCore times operations of the pools alone, on one goroutine and on all processors.
func runCore(ctx context.Context, s *session) ([]Case, error) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "tarn bench core"})
	if err != nil {
		return nil, err
	}
	k := &coreContest{s: s, pool: pool, grpc: mem.DefaultBufferPool()}
	for _, size := range s.some([]int{1 << 10, 32 << 10, 1 << 20}) {
		if err := k.getFree(ctx, size); err != nil {
			return nil, err
		}
	}
	for _, run := range []func(context.Context) error{k.split, k.small, k.writer, k.parallel} {
		if err := run(ctx); err != nil {
			return nil, err
		}
	}
	return k.cases, nil
}

type coreContest struct {
	s     *session
	pool  *tarn.Pool
	grpc  mem.BufferPool
	cases []Case
}

func (k *coreContest) run(ctx context.Context, title string, ops ...op) error {
	c, err := k.s.runOps(ctx, title, ops)
	k.cases = append(k.cases, c)
	return err
}

// escaped keeps a slice from the stack. It is written by one benchmark at a time.
type escaped struct{ b []byte }

func (k *coreContest) getFree(ctx context.Context, size int) error {
	return k.run(ctx, "Take "+sizeName(size)+" and free it",
		op{"tarn", Tarn, func(n int) {
			for range n {
				k.pool.Get(size).Free()
			}
		}},
		makeOp(size),
		syncPoolOp(size),
		op{"grpc mem", Peer, func(n int) {
			for range n {
				mem.NewBuffer(k.grpc.Get(size), k.grpc).Free()
			}
		}},
	)
}

func makeOp(size int) op {
	e := new(escaped)
	return op{"make", Peer, func(n int) {
		for range n {
			e.b = make([]byte, size)
		}
		e.b = nil
	}}
}

func syncPoolOp(size int) op {
	p := newSyncPool(size)
	return op{"sync.Pool", Peer, func(n int) {
		for range n {
			p.Put(p.Get().(*[]byte))
		}
	}}
}

func newSyncPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

func (k *coreContest) split(ctx context.Context) error {
	const size = 32 << 10
	return k.run(ctx, "Take 32 KiB, split it in half, free both",
		op{"tarn", Tarn, func(n int) {
			for range n {
				head, tail := k.pool.Get(size).Split(size / 2)
				head.Free()
				tail.Free()
			}
		}},
		op{"grpc mem", Peer, func(n int) {
			for range n {
				head, tail := mem.SplitUnsafe(mem.NewBuffer(k.grpc.Get(size), k.grpc), size/2)
				head.Free()
				tail.Free()
			}
		}},
	)
}

func (k *coreContest) small(ctx context.Context) error {
	const size = 64
	arena := tarn.NewArena(k.pool, 64<<10)
	defer arena.Free()
	return k.run(ctx, "Take 64 B out of an arena and free it",
		op{"tarn", Tarn, func(n int) {
			for range n {
				arena.Get(size).Free()
			}
		}},
		makeOp(size),
		syncPoolOp(size),
	)
}

func (k *coreContest) writer(ctx context.Context) error {
	const total, size = 64 << 10, 100
	piece := make([]byte, size)
	w := tarn.NewWriter(k.pool)
	var c tarn.Chain
	var s mem.BufferSlice
	return k.run(ctx, fmt.Sprintf("Write 64 KiB in pieces of %d B", size),
		op{"tarn", Tarn, func(n int) {
			for range n {
				for range total / size {
					w.Write(piece) // never fails: it writes to memory
				}
				w.MoveTo(&c)
				c.Free()
			}
		}},
		op{"grpc mem", Peer, func(n int) {
			for range n {
				gw := mem.NewWriter(&s, k.grpc)
				for range total / size {
					gw.Write(piece)
				}
				s.Free()
				clear(s)
				s = s[:0]
			}
		}},
	)
}

func (k *coreContest) parallel(ctx context.Context) error {
	const size = 32 << 10
	sp := newSyncPool(size)
	return k.run(ctx, "Take 32 KiB and free it, on every processor at once",
		op{"tarn", Tarn, everywhere(func() { k.pool.Get(size).Free() })},
		op{"sync.Pool", Peer, everywhere(func() { sp.Put(sp.Get().(*[]byte)) })},
		op{"grpc mem", Peer, everywhere(func() { mem.NewBuffer(k.grpc.Get(size), k.grpc).Free() })},
	)
}
