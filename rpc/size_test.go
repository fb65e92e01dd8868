package rpc

import (
	"reflect"
	"testing"
)

// A serverCall becomes garbage after each call, and the next larger size class of the runtime is 448 bytes.
func TestServerCallFitsItsClass(t *testing.T) {
	if n := reflect.TypeFor[serverCall]().Size(); n > 416 {
		t.Errorf("%d bytes", n)
	}
}
