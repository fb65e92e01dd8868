package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryVec is how many pieces one system call of TrySend takes: as many as
// unix.Writev vectors without allocating.
const tryVec = 8

func tryConn(c net.Conn) syscall.RawConn { return rawConn(c) }

// writable sends what the socket takes at once. It never asks to wait.
func (w *Writer) writable(fd uintptr) bool {
	for w.try.Len() > 0 {
		vec := w.try.pending()
		var n int
		var err error
		if len(vec) == 1 {
			n, err = syscall.Write(int(fd), vec[0])
		} else {
			n, err = unix.Writev(int(fd), vec[:min(len(vec), tryVec)])
		}
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			w.terr = &net.OpError{Op: "write", Net: w.conn.LocalAddr().Network(),
				Source: w.conn.LocalAddr(), Addr: w.conn.RemoteAddr(), Err: err}
			return true
		}
		w.try.advance(n)
	}
	return true
}
