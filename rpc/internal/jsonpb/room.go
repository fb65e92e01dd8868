package jsonpb

import "github.com/tarn-go/tarn"

// room is memory of a pool that grows as it is written to.
type room struct {
	pool *tarn.Pool
	buf  tarn.Buffer
	b    []byte // what has been written into buf
}

// begin takes memory of size bytes, to be freed or taken.
func (r *room) begin(pool *tarn.Pool, size int) {
	r.pool, r.buf = pool, pool.Get(size)
	r.b = r.buf.Bytes()[:0]
}

// reserve makes the next n bytes appended to b stay in the pool's memory.
func (r *room) reserve(n int) {
	if cap(r.b)-len(r.b) < n {
		r.grow(n)
	}
}

func (r *room) grow(n int) {
	next := r.pool.Get(r.pool.ClassSize(max(2*cap(r.b), len(r.b)+n)))
	n = copy(next.Bytes(), r.b)
	r.buf.Free()
	r.buf, r.b = next, next.Bytes()[:n]
}

// take passes what has been written to the caller, and leaves r empty.
func (r *room) take() tarn.Buffer {
	b := r.buf.Narrow(0, len(r.b))
	*r = room{}
	return b
}

// free frees the memory and leaves r empty.
func (r *room) free() {
	r.buf.Free()
	*r = room{}
}
