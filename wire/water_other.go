//go:build !linux

package wire

func (r *Reader) mark(uintptr) bool { return false }

func (r *Reader) unmark() {}

func (r *Reader) markBusy(uintptr) {}
