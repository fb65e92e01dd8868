//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package h2http

import "net"

// peekSocket never looks: this system has no MSG_PEEK that does not wait.
func peekSocket(net.Conn, []byte) (n int, ok bool) { return 0, false }
