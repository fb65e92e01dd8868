//go:build !tarn_safe

package hint

import "unsafe"

// Goroutine returns a number that is likely the same at each call of one goroutine and likely
// different for different goroutines. It is a hint: nothing may depend on it but speed.
//
// It is derived from the address of the caller's stack, which goroutines do not share. Proof that
// this is safe: the pointer is converted to an integer at once and never back, so the variable
// does not escape, nothing is kept alive or dereferenced, and a stack that moves only changes the
// number.
func Goroutine() uint32 {
	var here byte
	const stack = 11 // stacks are 2 KiB and more
	at := uint64(uintptr(unsafe.Pointer(&here))) >> stack
	return uint32(at * 0x9E3779B97F4A7C15 >> 32)
}
