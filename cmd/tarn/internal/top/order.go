package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// order is how the classes of a pool are sorted.
type order int

const (
	bySize order = iota
	byRate       // gets a second, the most first
	byHeld       // bytes in use and idle, the most first
	orders
)

func (o order) String() string { return [...]string{"size", "rate", "held"}[o] }

// MarshalText implements encoding.TextMarshaler, for the flag's default.
func (o order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for the flag.
func (o *order) UnmarshalText(text []byte) error {
	for v := range orders {
		if v.String() == string(text) {
			*o = v
			return nil
		}
	}
	return fmt.Errorf("%q is none of size, rate and held", text)
}

// sort sorts rows; rows that are equal stay in the order of their size.
func (o order) sort(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(sizeKey(a.Size), sizeKey(b.Size)) })
	switch o {
	case byRate:
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.rate, a.rate) })
	case byHeld:
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.held(), a.held()) })
	}
}

// sizeKey puts oversize requests, of size 0, last.
func sizeKey(size int) int {
	if size == 0 {
		return math.MaxInt
	}
	return size
}
