package h2http

import (
	"io"
	"net/http"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// keptChains is a chainWriter, and an io.Writer that must not be written to.
type keptChains struct {
	t     *testing.T
	chain tarn.Chain
}

func (k *keptChains) Write(p []byte) (int, error) {
	k.t.Errorf("%d bytes are copied", len(p))
	return len(p), nil
}

func (k *keptChains) writeChain(c *tarn.Chain) error {
	k.chain.AppendChain(c)
	return nil
}

// TestCopyIsByReference: io.Copy hands what was received to a ResponseWriter of this package as it is.
func TestCopyIsByReference(t *testing.T) {
	pool := tarntest.NewPool(t)
	buf := pool.Copy(make([]byte, 10000))
	received := &buf.Bytes()[0]
	var b body
	b.bind(&exchange{conn: &serverConn{engine: newEngine(&http.Server{}, pool)}}, nil)
	b.add(buf)
	b.err = io.EOF
	defer b.unwanted()
	w := &keptChains{t: t}
	if n, err := io.Copy(w, &b); n != 10000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	got, err := w.chain.Peek(10000, nil)
	if err != nil || len(got) != 1 || &got[0][0] != received {
		t.Errorf("another memory has been handed on: %d pieces, %v", len(got), err)
	}
	w.chain.Free()
}
