package balance

// put adds v to a set, which it makes if there is none.
func put[T comparable](m *map[T]struct{}, v T) {
	if *m == nil {
		*m = make(map[T]struct{})
	}
	(*m)[v] = struct{}{}
}
