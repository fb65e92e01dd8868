package h2

import "testing"

// TestCallerSends: a caller sends six batches of any length, and goes on while they are short, up to
// 64, but never for ever.
func TestCallerSends(t *testing.T) {
	for _, c := range []struct {
		name    string
		length  int // of each batch, in bytes
		batches int // that the caller sends
	}{
		{"of one small call", 150, shortBatches},
		{"of many small calls", 8 << 10, batchLimit / (8 << 10)},
		{"full", batchLimit, callerBatches},
	} {
		n := 0
		for bytes := 0; callerSends(n, bytes); n++ {
			bytes += c.length
		}
		if n != c.batches {
			t.Errorf("batches %s: a caller sends %d, not %d", c.name, n, c.batches)
		}
	}
}
