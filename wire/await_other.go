//go:build !unix

package wire

import "net"

// Awaits says whether there is an Await on this system.
const Awaits = false

// CanAwait reports whether Await can wait on conn: not on this system.
func CanAwait(net.Conn) bool { return false }

// Await cannot wait on this system.
func Await(net.Conn) error { return errCannotAwait }
