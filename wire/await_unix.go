//go:build unix

package wire

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Awaits says whether there is an Await on this system.
const Awaits = true

// CanAwait reports whether conn is known to be what Await can wait on: a plain TCP
// or Unix connection, or TLS over one.
func CanAwait(conn net.Conn) bool { return rawConn(plain(conn)) != nil }

// Await waits until a read of conn's socket would not wait, be it for an error or
// the end of the stream. It reads nothing from the connection, and holds no memory and
// little stack, so that the goroutine of an idle connection can wait in it. What conn
// itself has buffered (TLS) does not count, so the read before must have met its
// deadline. A connection that wraps one of those that CanAwait accepts must be a
// syscall.Conn. The error is that of conn's read deadline or its end, or says that
// there is no socket.
func Await(conn net.Conn) error {
	sc, ok := plain(conn).(syscall.Conn)
	if !ok {
		return errCannotAwait
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(hasInput)
}

// plain returns the connection under TLS, or conn.
func plain(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// hasInput reports whether there is something to read.
func hasInput(fd uintptr) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p[:], 0)
	return n > 0 || err != nil && err != unix.EINTR
}
