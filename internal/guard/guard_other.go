//go:build !darwin && !linux

package guard

// Supported reports whether Alloc can succeed on this platform.
const Supported = false

// Alloc returns ErrUnsupported.
func Alloc(int) ([]byte, error) { return nil, ErrUnsupported }

// Forbid returns ErrUnsupported.
func Forbid([]byte) error { return ErrUnsupported }

// Release returns ErrUnsupported.
func Release([]byte) error { return ErrUnsupported }
