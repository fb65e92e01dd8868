package h2

import (
	"reflect"
	"testing"
)

// A program may have many thousands of connections, idle most of the time. The next larger size class of the runtime is 1,024 bytes.
func TestConnFitsItsClass(t *testing.T) {
	if n := reflect.TypeFor[Conn]().Size(); n > 896 {
		t.Errorf("%d bytes", n)
	}
}
