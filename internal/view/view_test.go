package view_test

import (
	"testing"

	"github.com/tarn-go/tarn/internal/view"
)

// TestString: a string has the bytes' content, whatever their length and capacity, and allocates at most itself.
func TestString(t *testing.T) {
	for _, b := range [][]byte{nil, {}, []byte("a"), []byte("content"), make([]byte, 5, 100), make([]byte, 100)[50:50], make([]byte, 1<<16)} {
		if s := view.String(b); s != string(b) {
			t.Errorf("%d bytes became %q", len(b), s)
		}
	}
	b := make([]byte, 100)
	var s string
	if n := testing.AllocsPerRun(100, func() { s = view.String(b) }); n > 1 {
		t.Errorf("%v allocations for %d bytes", n, len(s))
	}
}
