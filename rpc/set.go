package rpc

import "slices"

// set is a set of elements. While there are few they are in a slice alone: most clients have one connection, for which a map takes
// 192 bytes. Further ones are also in a map, so that adding and removing do not take longer among 1,000. The zero set is empty.
type set[T comparable] struct {
	list []T       // in no order
	at   map[T]int // where each is in list; nil until there are more than setScanned
}

// setScanned is how many elements are looked for one after the other.
const setScanned = 16

// index is where v is in list; negative when it is not there.
func (s *set[T]) index(v T) int {
	if s.at == nil {
		return slices.Index(s.list, v)
	}
	if i, ok := s.at[v]; ok {
		return i
	}
	return -1
}

// add does nothing if v is there.
func (s *set[T]) add(v T) {
	if s.index(v) >= 0 {
		return
	}
	s.list = append(s.list, v)
	switch n := len(s.list); {
	case s.at != nil:
		s.at[v] = n - 1
	case n > setScanned:
		s.at = make(map[T]int, 2*n)
		for i, v := range s.list {
			s.at[v] = i
		}
	}
}

// remove does nothing if v is not there.
func (s *set[T]) remove(v T) {
	i := s.index(v)
	if i < 0 {
		return
	}
	last := len(s.list) - 1
	moved := s.list[last]
	s.list[i] = moved
	clear(s.list[last:])
	s.list = s.list[:last]
	if s.at != nil {
		s.at[moved] = i
		delete(s.at, v)
	}
}
