//go:build !tarn_safe

// Package view makes strings that share the memory of bytes.
package view

import "unsafe"

// String returns b as a string without a copy. Its content is that of b as long as the memory is not used for something else: whoever writes to
// b changes a string, which Go programs rely on not to happen. A copy is made under the build tag tarn_safe.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
