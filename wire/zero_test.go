package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
)

// next asks a zero Reader for n bytes.
func next(n int) {
	if b, err := new(Reader).Next(n); err == nil {
		b.Free()
	}
}

// The zero Reader and Writer panic with a text that names NewReader or NewWriter, whatever method is called first.
func TestZeroValuesSayWhatIsMissing(t *testing.T) {
	for name, use := range map[string]func(){
		"Peek":        func() { new(Reader).Peek(1) },
		"Next":        func() { next(10) },
		"Next, large": func() { next(1 << 20) },
		"Read":        func() { new(Reader).Read(make([]byte, 10)) },
		"Read, large": func() { new(Reader).Read(make([]byte, 1<<20)) },
		"ReadByte":    func() { new(Reader).ReadByte() },
		"Discard":     func() { new(Reader).Discard(1) },
		"WriteTo":     func() { new(Reader).WriteTo(io.Discard) },
		"Write":       func() { new(Writer).Write([]byte("x")) },
		"Space":       func() { new(Writer).Space(1) },
		"ReadFrom":    func() { new(Writer).ReadFrom(strings.NewReader("x")) },
		"Batch":       func() { new(Batch).Write([]byte("x")) },
		"Flush": func() {
			b := tarntest.NewPool(t).Get(1 << 10)
			w := new(Writer)
			defer w.Release()
			w.Append(b)
			w.Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "is not ready for use; make one with ") {
					t.Errorf("got %q", said)
				}
			}()
			use()
		})
	}
	new(Reader).Release() // a zero Reader holds nothing
	new(Writer).Release()
}
