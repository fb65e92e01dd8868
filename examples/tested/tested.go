// Package tested has a function that owns a buffer, and tests that fail if it is leaked or used after it was freed:
// go test ./tested
package tested

import "github.com/tarn-go/tarn"

// Upper takes ownership of b and returns its text in upper case in a buffer that the caller owns.
func Upper(pool *tarn.Pool, b tarn.Buffer) tarn.Buffer {
	defer b.Free()
	out := pool.Get(b.Len())
	for i, c := range b.Bytes() {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		out.Bytes()[i] = c
	}
	return out
}
