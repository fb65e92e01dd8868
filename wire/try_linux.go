package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryVec is how many pieces one system call of TrySend takes: as many as
// unix.Writev vectors without allocating.
const tryVec = 8

// trySize is how many bytes of several pieces one system call of TrySend takes: no more than leave in one segment of the
// loopback interface, or in one that a network card divides. A few bytes more leave in a segment of their own, which
// wakes the peer once more (docs/performance.md).
const trySize = 63 << 10

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
			n, err = unix.Writev(int(fd), vec[:pieces(vec)])
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

// pieces returns how many of the pieces the next system call takes. It passes over trySize where it would otherwise take
// less than three quarters of that.
func pieces(vec [][]byte) int {
	n, size := 0, 0
	for _, p := range vec[:min(len(vec), tryVec)] {
		if size >= trySize/4*3 && size <= trySize && size+len(p) > trySize {
			break
		}
		n++
		size += len(p)
	}
	return n
}
