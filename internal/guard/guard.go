// Package guard hands out memory in pages of its own that can be made inaccessible, so that a read
// through a slice that outlived its buffer faults on the spot instead of seeing the next owner's bytes.
package guard

import "errors"

// ErrUnsupported is returned where the platform offers no page protection to the standard library.
var ErrUnsupported = errors.New("guard: no page protection on this platform")
