package h2http

import (
	"io"
	"net/http"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// sourceFrom is how many bytes of a Write or of a file must be left for a Source to supply them, so that they are copied or read just
// before they are sent: what many streams copied or read when they began to wait has left the processor's cache when they are sent.
const sourceFrom = 3 * pieceSize

// supply sends n bytes of source, together with the header, unless that has been sent, and what is gathered. It returns how many bytes
// source supplied before it ended. No content decides the header's Content-Type any more. mu is held.
func (w *responseWriter) supply(r *response, source h2.Source, n int64) (int64, error) {
	o := h2.Out{Source: source, SourceLen: n}
	w.precede(r, &o)
	if err := w.x.stream.Write(nil, &o); err != nil {
		r.failed = w.x.why(err)
		return n - o.SourceLen, r.failed
	}
	return n - o.SourceLen, nil
}

// bytesSource supplies copies of what a handler writes, which waits until all is copied.
type bytesSource[T []byte | string] struct {
	pool *tarn.Pool
	left T
}

func (s *bytesSource[T]) Supply(n int) tarn.Buffer {
	b := s.pool.Get(n)
	copy(b.Bytes(), s.left[:n])
	s.left = s.left[n:]
	return b
}

// fileOf returns a Source of the file that src limits, if w can send it by one; nil: it cannot.
func (w *responseWriter) fileOf(src *io.LimitedReader) *fileSource {
	if src == nil || src.N < sourceFrom || w.x.request.Method == http.MethodHead {
		return nil
	}
	return newFileSource(src.R, w.x.memory())
}

// sendFile sends what f, which l limits, has in memory, if all that the header says is decided, and returns how many bytes that was.
func (w *responseWriter) sendFile(f *fileSource, l *io.LimitedReader) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.decided(w.inUse("ReadFrom")) {
		return 0, nil
	}
	r, err := w.admit(0)
	if err != nil {
		return 0, err
	}
	n := l.N
	if r.head.length >= 0 {
		n = min(n, r.head.length-r.written)
	}
	if n < sourceFrom {
		return 0, nil
	}
	n, err = w.supply(r, f, n)
	l.N -= n
	r.written += n
	return n, err
}
