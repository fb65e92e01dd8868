package h2http

import (
	"errors"
	"io"
	"net/http"

	"github.com/tarn-go/tarn"
)

// ErrNotOurs is returned for a body or a ResponseWriter that is not this package's:
// another protocol's, decompressed, or wrapped by a middleware.
var ErrNotOurs = errors.New("h2http: not a body or ResponseWriter of this package")

// BodyChain waits until content of a request has been received that has not been read,
// and moves all of it to dst, by reference. The error is io.EOF at the end, when
// r.Trailer is complete, or what Read would return; nothing has been added then. A
// request without content gives io.EOF at once. dst is the caller's to free. It is not
// for use beside Read.
func BodyChain(r *http.Request, dst *tarn.Chain) error { return bodyChain(r.Body, dst) }

// ResponseChain is BodyChain for a response that a client has received.
func ResponseChain(r *http.Response, dst *tarn.Chain) error { return bodyChain(r.Body, dst) }

// WriteChain writes all of c by reference, as w.Write would by copy. It takes ownership
// of what c holds and leaves it empty, on errors too.
func WriteChain(w http.ResponseWriter, c *tarn.Chain) error {
	sink, ok := w.(chainWriter)
	if !ok {
		c.Free()
		return ErrNotOurs
	}
	return sink.writeChain(c)
}

// CanWriteChain reports whether w is a ResponseWriter that [WriteChain] writes to.
func CanWriteChain(w http.ResponseWriter) bool {
	_, ok := w.(chainWriter)
	return ok
}

func bodyChain(r any, dst *tarn.Chain) error {
	if b, ok := r.(*body); ok {
		return b.next(dst)
	}
	if r == nil || r == http.NoBody {
		return io.EOF
	}
	return ErrNotOurs
}
