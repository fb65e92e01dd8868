package tarntest_test

import (
	"testing"

	"github.com/tarn-go/tarn/tarntest"
)

// In a test of your own, give what you test a pool of tarntest: at the end of the test it fails for
// each buffer that is still out and for each one that was misused.
func ExampleNewPool() {
	_ = func(t *testing.T) {
		pool := tarntest.NewPool(t)
		b := pool.Get(100)
		defer b.Free() // without it the test fails, and names this function
	}
}
