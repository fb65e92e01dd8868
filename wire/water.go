package wire

import "net"

// SetSizes bounds the receive buffer, in bytes. On a connection whose readiness cannot be
// awaited (neither plain TCP nor Unix) a buffer of idle bytes waits for what comes; most
// is what it grows to while reads fill it. Small bounds suit a protocol whose long
// payloads are read straight to their destination: what is in the receive buffer is
// copied once more. Large ones suit long payloads that are used where they were received:
// they take fewer system calls. It panics unless 0 < idle ≤ most ≤ MaxRead. Without it:
// IdleWait and MaxPeek.
func (r *Reader) SetSizes(idle, most int) {
	if idle <= 0 || idle > most || most > MaxRead {
		panic("wire: SetSizes outside 0 < idle ≤ most ≤ MaxRead")
	}
	r.idle, r.most = idle, most
	r.size = min(r.size, most)
}

// SetLowWater lets calls that cannot return before many bytes have come (ReadFull, and Next
// of a long message) wait until n bytes are there, or all that are missing, instead of
// waking for each segment: fewer context switches, for them and for a sender on the same
// machine. n = 0, the default, wakes for any byte. It takes effect on plain TCP on Linux, where it
// sets the socket's SO_RCVLOWAT, put back to 1 when something shorter is waited for and
// by Release. It is not for connections that are given to Await. It panics if n is negative.
func (r *Reader) SetLowWater(n int) {
	if n < 0 {
		panic("wire: SetLowWater of a negative length")
	}
	if _, ok := r.conn.(*net.TCPConn); ok {
		r.water = n
	}
}

// SetBusyLowWater sets how many bytes must have arrived for the system to announce them while no read waits. It is
// for a caller that reads again soon after each read without being woken: by default each segment that arrives
// meanwhile wakes the thread that waits for all of the process's sockets, which finds that no goroutine
// waits for it. A read that finds nothing waits for any byte, or, where n bytes or more must come (ReadFull, and Next
// of a long message), for n of them. It takes effect with the next read, on plain TCP on Linux, where it sets the
// socket's SO_RCVLOWAT, put back to 1 before a read waits for any byte and by Release, which must be called
// before Await. n = 0 is the default, and takes effect when a read waits. It panics if n is negative.
func (r *Reader) SetBusyLowWater(n int) {
	if n < 0 {
		panic("wire: SetBusyLowWater of a negative length")
	}
	if _, ok := r.conn.(*net.TCPConn); ok {
		r.busyWater = n
	}
}
