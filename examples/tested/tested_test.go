package tested_test

import (
	"testing"

	"github.com/tarn-go/tarn/examples/tested"
	"github.com/tarn-go/tarn/tarntest"
)

// Remove the Free here, or that of Upper: the test fails, and says where the buffer was made.
func TestUpper(t *testing.T) {
	pool := tarntest.NewPool(t) // fails the test for what is leaked, freed twice, or used after it was freed
	out := tested.Upper(pool, pool.Copy([]byte("hello")))
	defer out.Free()
	if got := string(out.Bytes()); got != "HELLO" {
		t.Errorf("Upper returned %q", got)
	}
}
