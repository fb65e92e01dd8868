package wire

import "net"

// LimitUnsent bounds how many bytes the system holds for conn that it has not sent yet: a write beyond n waits, and
// TrySend leaves the rest. What the peer has not acknowledged does not count, so it costs a fast connection nothing but
// more frequent writes. By default the system holds some megabytes, and what is written next, an answer to a PING or a
// small message, waits for all of them where the network is slow. It takes effect on TCP on Linux, also under TLS and in
// a wrapper that is a syscall.Conn, where it sets the socket's TCP_NOTSENT_LOWAT, and to within the segments that the
// system makes. It panics unless n is positive.
func LimitUnsent(conn net.Conn, n int) {
	if n <= 0 {
		panic("wire: LimitUnsent to a length that is not positive")
	}
	limitUnsent(conn, n)
}
