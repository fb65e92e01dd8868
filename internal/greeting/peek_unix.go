//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package greeting

import (
	"net"
	"syscall"
)

// peek waits for the socket's next bytes and copies them without taking them off
// the connection; false: that cannot be done or has failed.
func peek(nc net.Conn, p []byte) (n int, ok bool) {
	var raw syscall.RawConn
	var err error
	switch c := nc.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return 0, false
	}
	if err != nil {
		return 0, false
	}
	var perr error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, perr = syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK)
			if perr != syscall.EINTR {
				return perr != syscall.EAGAIN
			}
		}
	})
	return n, err == nil && perr == nil
}
