package rpc

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSet: a set has each element once, and drops its references to those that were removed, while it has few elements and many.
func TestSet(t *testing.T) {
	for _, n := range []int{3, setScanned, setScanned + 1, 10 * setScanned} {
		var s set[*int]
		of := make([]*int, n)
		for i := range of {
			of[i] = &i
		}
		s.remove(of[0])
		in := map[*int]bool{}
		for range 20 * n {
			v := of[rand.IntN(n)]
			if rand.IntN(3) > 0 {
				s.add(v)
				in[v] = true
			} else {
				s.remove(v)
				delete(in, v)
			}
			if len(s.list) != len(in) {
				t.Fatalf("%d elements, want %d", len(s.list), len(in))
			}
		}
		for _, v := range s.list {
			if !in[v] {
				t.Errorf("%d is in the set, although it was removed", *v)
			}
			delete(in, v)
		}
		if len(in) > 0 {
			t.Errorf("%d elements are missing", len(in))
		}
		if left := s.list[len(s.list):cap(s.list)]; slices.ContainsFunc(left, func(p *int) bool { return p != nil }) {
			t.Errorf("of %d elements, removed ones are still referred to", n)
		}
	}
}
