package adapt

import "github.com/tarn-go/tarn"

// defaultHTTPUtilSize is the length of the slices of HTTPUtil(p, 0): what httputil.ReverseProxy
// itself allocates for each response when it has no pool.
const defaultHTTPUtilSize = 32 << 10

// HTTPUtilPool is an httputil.BufferPool whose memory is a tarn.Pool's. It is safe for concurrent
// use. A slice that is never put back stays in use in the pool's statistics, and its checks name it;
// httputil.ReverseProxy puts every one back.
type HTTPUtilPool struct {
	pool *tarn.Pool
	size int
	out  registry[tarn.Buffer]
}

// HTTPUtil returns an httputil.BufferPool of slices of size bytes, 32 KiB if size is 0,
// that takes its memory from p, which it borrows. It panics if p is nil or size is negative.
func HTTPUtil(p *tarn.Pool, size int) *HTTPUtilPool {
	if p == nil || size < 0 {
		panic("adapt: HTTPUtil of a nil pool or with a negative size")
	}
	if size == 0 {
		size = defaultHTTPUtilSize
	}
	return &HTTPUtilPool{pool: p, size: size}
}

// Get returns a slice of the pool's size, whose contents are undefined unless the pool's config
// zeroes them. It is valid until Put. It never fails.
func (h *HTTPUtilPool) Get() []byte {
	buf := h.pool.Get(h.size)
	b := buf.Bytes()
	h.out.put(firstByte(b), buf)
	return b
}

// Put takes back a slice that Get returned, at any length but from its first byte. It must not be
// used afterwards. Any other slice, and one that came back before, is refused and counted.
func (h *HTTPUtilPool) Put(b []byte) {
	buf, ok := h.out.take(firstByte(b))
	if !ok {
		h.pool.Refuse(b)
		return
	}
	buf.Free()
}
