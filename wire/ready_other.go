//go:build !unix

package wire

import (
	"net"
	"syscall"
)

// rawConn returns nil: here a Reader waits with a buffer of IdleWait bytes.
func rawConn(net.Conn) syscall.RawConn { return nil }

func (r *Reader) await() (int, error) { return r.conn.Read(r.dst) }

func (r *Reader) readable(uintptr) bool { return true }
