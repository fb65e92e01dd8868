package wire

import "syscall"

// worthMarking is how many bytes must be missing before a low-water mark is worth the
// system call that sets it.
const worthMarking = 64 << 10

// mark says how much is to be there before the wait for fd ends, never more than what
// must come, and reports whether that is something new.
func (r *Reader) mark(fd uintptr) bool {
	want := 1
	switch {
	case r.water > 1 && r.ask >= worthMarking:
		want = min(r.ask, r.water)
	case r.low > 1 && r.busyWater > 1 && r.ask >= r.low:
		want = r.low
	}
	if want == max(r.low, 1) {
		return false
	}
	return r.setMark(fd, want)
}

// setMark sets the socket's low-water mark, and reports whether it has.
func (r *Reader) setMark(fd uintptr, n int) bool {
	if syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n) != nil {
		r.water, r.busyWater = 0, 0 // this socket does not support it
		return false
	}
	r.low = n
	return true
}

// markBusy is called when bytes have been read from fd.
func (r *Reader) markBusy(fd uintptr) {
	if r.busyWater > max(r.low, 1) {
		r.setMark(fd, r.busyWater)
	}
}

// unmark sets the socket's low-water mark to 1 again.
func (r *Reader) unmark() {
	if r.low > 1 {
		r.ask = 0
		r.raw.Control(func(fd uintptr) { r.mark(fd) })
	}
}
