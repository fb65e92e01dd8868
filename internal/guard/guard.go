// Package guard allocates memory in separate pages that can be made inaccessible, so that a read through a
// slice that outlived its buffer faults at once instead of returning the next owner's bytes.
package guard

import "errors"

// ErrUnsupported is returned where the platform offers no page protection to the standard library.
var ErrUnsupported = errors.New("guard: no page protection on this platform")
