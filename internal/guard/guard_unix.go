//go:build darwin || linux

package guard

import "syscall"

// Supported reports whether Alloc can succeed on this platform.
const Supported = true

// Alloc returns n bytes of zeroed memory in separate pages, outside the Go heap. The caller must return them
// with Release and must not store pointers that the garbage collector has to find in them.
func Alloc(n int) ([]byte, error) {
	return syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// Forbid makes the pages of b, which Alloc returned, inaccessible.
func Forbid(b []byte) error { return syscall.Mprotect(b, syscall.PROT_NONE) }

// Release gives the pages of b, which Alloc returned, back to the system.
func Release(b []byte) error { return syscall.Munmap(b) }
