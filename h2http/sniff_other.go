//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package h2http

import "net"

// peekSocket is not implemented on this system.
func peekSocket(net.Conn, []byte) (n int, ok bool) { return 0, false }
