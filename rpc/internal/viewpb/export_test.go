package viewpb

import "github.com/tarn-go/tarn/internal/view"

// IsView reports whether strings are views: not under the build tag tarn_safe.
var IsView = func() bool {
	b := []byte("a")
	s := view.String(b)
	b[0] = 'b'
	return s == "b"
}()
