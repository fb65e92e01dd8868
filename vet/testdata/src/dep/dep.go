// Package dep has functions whose contracts other packages learn from facts.
package dep

import (
	"errors"

	"github.com/tarn-go/tarn"
)

// Send takes ownership of b.
func Send(b tarn.Buffer) error {
	b.Free()
	return nil
}

// Look borrows b.
func Look(b tarn.Buffer) int { return len(b.Bytes()) }

// Make returns a buffer, without an error only.
func Make(p *tarn.Pool, n int) (tarn.Buffer, error) {
	if n < 0 {
		return tarn.Buffer{}, errors.New("negative")
	}
	return p.Get(n), nil
}

// Must ends the program when err is not nil.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// A Handler receives data.
type Handler interface {
	// OnData takes ownership of b.
	OnData(b tarn.Buffer)
}

// With calls f with x.
func With[T any](x T, f func(T)) { f(x) }

// Each calls f with each element.
func Each[T any](xs []T, f func(int, T)) {
	for i, x := range xs {
		f(i, x)
	}
}
