//go:build !linux

package wire

import (
	"net"
	"syscall"
)

func tryConn(net.Conn) syscall.RawConn { return nil }

func (w *Writer) writable(uintptr) bool { return true }
