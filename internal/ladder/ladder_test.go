package ladder

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Find agrees with a linear search, at and around each boundary and at random lengths.
func TestFindIsTheSmallestThatFits(t *testing.T) {
	ladders := [][]int{{1}, {1, 2, 3, 4}, {64, 100, 1000}, {MaxSize}, {1, MaxSize - 1, MaxSize}}
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		sizes := make([]int, 1+r.IntN(200))
		for i := range sizes {
			sizes[i] = 1 + r.IntN(1<<r.IntN(30))
		}
		slices.Sort(sizes)
		ladders = append(ladders, slices.Compact(sizes))
	}
	for _, sizes := range ladders {
		l := New(sizes, func(size int) int { return -size })
		if !slices.Equal(l.Sizes(), sizes) {
			t.Fatalf("sizes %v, want %v", l.Sizes(), sizes)
		}
		check := func(n int) {
			i, _ := slices.BinarySearch(sizes, n)
			if n < 1 || i == len(sizes) {
				if l.Within(n) {
					t.Errorf("%d is within %v", n, sizes)
				}
				return
			}
			if s := l.Find(n); !l.Within(n) || s.Size != sizes[i] || s.Class != -sizes[i] {
				t.Errorf("%d: class %d, want %d", n, s.Size, sizes[i])
			}
		}
		for _, size := range sizes {
			check(size - 1)
			check(size)
			check(size + 1)
		}
		for range 1000 {
			check(r.IntN(1 << r.IntN(31)))
		}
	}
}
