package rpc

import (
	"testing"

	"github.com/tarn-go/tarn"
)

// TestDefaultPool: without Pool and WithPool memory is from tarn.Shared.
func TestDefaultPool(t *testing.T) {
	if NewServer().opts.pool != tarn.Shared() {
		t.Error("a server has another pool")
	}
	if defaultDialOptions().pool != tarn.Shared() {
		t.Error("a client has another pool")
	}
}
