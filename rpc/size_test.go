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

// A clientStream has the memory of its first attempt, and becomes garbage after each streaming call. The next larger size class is
// 1,024 bytes.
func TestClientStreamFitsItsClass(t *testing.T) {
	if n := reflect.TypeFor[clientStream]().Size(); n > 896 {
		t.Errorf("%d bytes", n)
	}
}

// A program may have thousands of clients, idle most of the time. The next larger size class is 1,408 bytes.
func TestClientConnFitsItsClass(t *testing.T) {
	if n := reflect.TypeFor[ClientConn]().Size(); n > 1280 {
		t.Errorf("%d bytes", n)
	}
}
