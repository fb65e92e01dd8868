//go:build !unix

package wire

import "net"

// CanAwait reports whether Await can wait on conn: not on this system.
func CanAwait(net.Conn) bool { return false }

// Await cannot wait on this system.
func Await(net.Conn) error { return errCannotAwait }
