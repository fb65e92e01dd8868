package wire

import (
	"slices"
	"testing"
)

// TestPieces divides batches into system calls. The trailers of a response of 16 KiB leave with the end of its DATA.
func TestPieces(t *testing.T) {
	const frame = 16 << 10
	for _, test := range []struct{ batch, calls []int }{
		{[]int{20, frame, 32}, []int{3}},
		{[]int{20, frame, 52, frame, 52, frame, 32}, []int{7}},
		{[]int{20, frame, 52, frame, 52, frame, 52, frame, 32}, []int{7, 2}},
		{[]int{20, frame, 52, frame, 52, frame, 52, frame, 52, frame, 52, frame, 32}, []int{7, 6}},
		{[]int{9, 1 << 20, 32}, []int{3}},
		{[]int{9, 64 << 10, 9, 64 << 10, 32}, []int{5}},
		{[]int{40 << 10, 40 << 10, 40 << 10}, []int{3}},
		{[]int{9, 30 << 10, 9, 30 << 10, 9, 30 << 10, 32}, []int{5, 2}},
		{[]int{2048, 9, 2048, 9, 2048, 9, 2048, 9, 2048}, []int{tryVec, 1}},
	} {
		var vec [][]byte
		for _, n := range test.batch {
			vec = append(vec, make([]byte, n))
		}
		var calls []int
		for len(vec) > 0 {
			n := pieces(vec)
			calls = append(calls, n)
			vec = vec[n:]
		}
		if !slices.Equal(calls, test.calls) {
			t.Errorf("pieces of %v bytes are sent %v at a time, not %v", test.batch, calls, test.calls)
		}
	}
}
