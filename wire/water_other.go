//go:build !linux

package wire

// Low-water marks are set on Linux only: elsewhere these do nothing.

func (r *Reader) mark(uintptr) bool { return false }

func (r *Reader) unmark() {}

func (r *Reader) markBusy(uintptr) {}
