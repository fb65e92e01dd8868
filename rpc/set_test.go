package rpc

import (
	"slices"
	"testing"
)

// A set has each element once, and drops its references to those that were removed.
func TestSet(t *testing.T) {
	var s set[*int]
	a, b, c := new(int), new(int), new(int)
	s.remove(a)
	for _, p := range []*int{a, b, a, c} {
		s.add(p)
	}
	if !slices.Equal(s, []*int{a, b, c}) {
		t.Errorf("%v", s)
	}
	s.remove(b)
	s.remove(b)
	if !slices.Equal(s, []*int{a, c}) || s[:3][2] != nil {
		t.Errorf("%v", s[:3])
	}
}
