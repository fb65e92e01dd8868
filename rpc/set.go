package rpc

import "slices"

// set is a set of few elements, in a slice: most clients have one connection, for which a map takes 192 bytes.
// Adding and removing take time that is proportional to its length.
type set[T comparable] []T

func (s *set[T]) add(v T) {
	if !slices.Contains(*s, v) {
		*s = append(*s, v)
	}
}

// remove does nothing if v is not there.
func (s *set[T]) remove(v T) {
	if i := slices.Index(*s, v); i >= 0 {
		*s = slices.Delete(*s, i, i+1)
	}
}
