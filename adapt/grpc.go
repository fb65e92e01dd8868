package adapt

import (
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn"
)

// grpcThreshold is the capacity up to which grpc-go's mem.NewBuffer takes a slice to be unpooled and
// never gives it back. Slices of this adapter are always above it; otherwise no slice of a small
// message would return to the pool.
const grpcThreshold = 1 << 10

// GRPCPool is a grpc-go mem.BufferPool whose memory is a tarn.Pool's. It is safe for concurrent use.
// Hand it to experimental.WithBufferPool and experimental.BufferPool of grpc-go, or to any of mem's
// functions that take a pool.
//
// A pointer that grpc-go drops without putting it back, as it does when a stream is torn down with
// messages unread, is left to the garbage collector, and the pool counts its memory as leaked
// (tarn.Stats.Leaked).
type GRPCPool struct {
	pool *tarn.Pool
	// On checked pools each pointer is used once, so that a second Put is refused at any later time.
	checked bool
	idle    sync.Pool // of idle *grpcBuf
	known   known     // finds the grpcBuf of a pointer
}

// grpcBuf is what a *[]byte handed out by a GRPCPool points into.
type grpcBuf struct {
	b   []byte // the holder's; may be resliced or replaced by it
	buf tarn.Buffer
	out atomic.Bool
}

// GRPC returns a grpc-go mem.BufferPool that takes its memory from p, which it borrows. It panics if
// p is nil.
func GRPC(p *tarn.Pool) *GRPCPool {
	if p == nil {
		panic("adapt: GRPC of a nil pool")
	}
	check := p.Stats().Check
	return &GRPCPool{pool: p, checked: check == tarn.CheckAll || check == tarn.CheckGuard}
}

// Get returns a pointer to a slice of length n, whose contents are undefined unless the pool's
// config zeroes them (grpc-go's own pool zeroes). The slice is valid until Put. It never fails; it
// panics if n is negative.
func (g *GRPCPool) Get(n int) *[]byte {
	buf := g.pool.Get(roundUp(n))
	w, _ := g.idle.Get().(*grpcBuf)
	if w == nil {
		w = g.grow()
	}
	w.buf = buf
	w.b = buf.Bytes()[:n]
	w.out.Store(true)
	return &w.b
}

// roundUp lifts a length above grpcThreshold. A negative one is left as it is, for the pool to refuse.
func roundUp(n int) int {
	if n >= 0 && n <= grpcThreshold {
		return grpcThreshold + 1
	}
	return n
}

func (g *GRPCPool) grow() *grpcBuf {
	w := new(grpcBuf)
	g.known.add(w)
	return w
}

// Put takes back what Get returned: the pointer itself, whatever the slice behind it is by now.
// The slice must not be used afterwards. A pointer that did not come from Get, or that came back
// before, is refused and counted; nil is ignored.
func (g *GRPCPool) Put(p *[]byte) {
	if p == nil {
		return
	}
	w := g.known.find(p)
	if w == nil || !w.out.CompareAndSwap(true, false) {
		g.pool.Refuse(*p)
		return
	}
	buf := w.buf
	w.b, w.buf = nil, tarn.Buffer{}
	buf.Free()
	if !g.checked {
		g.idle.Put(w)
	}
}
