//go:build unix

package wire

import (
	"io"
	"net"
	"syscall"
)

// rawConn returns the descriptor of a plain TCP or Unix connection, whose
// readiness can be awaited; nil for any other. The type is matched exactly: a
// connection that embeds one of these has a Read of its own.
func rawConn(c net.Conn) syscall.RawConn {
	var sc syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		sc = c
	case *net.UnixConn:
		if a := c.LocalAddr(); a != nil && a.Network() != "unix" {
			return nil // a stream reader would lose the boundaries of datagrams
		}
		sc = c
	default:
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// await reads once, waiting until there is something. step is the method readable, kept as a func value so that
// passing it allocates nothing.
func (r *Reader) await() (int, error) {
	r.n, r.serr = 0, nil
	if err := r.raw.Read(r.step); err != nil {
		return 0, err
	}
	return r.n, r.serr
}

// readable is called with the descriptor each time it may be readable. While it
// is not, the receive buffer is returned to the pool, unless it holds bytes. True ends the wait.
func (r *Reader) readable(fd uintptr) bool {
	p := r.dst
	if p == nil {
		r.room(r.need, r.size)
		p = r.mem[r.w:]
	}
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if r.mark(fd) {
				continue // old kernels do not report readiness when enough bytes for the mark are there already
			}
			if r.w == r.r {
				r.drop()
			}
			return false
		case err != nil:
			r.serr = &net.OpError{Op: "read", Net: r.conn.LocalAddr().Network(),
				Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(), Err: err}
		case n == 0:
			r.serr = io.EOF
		default:
			r.n = n
			r.markBusy(fd)
			if r.dst == nil {
				r.adapt(n, len(p))
			}
		}
		return true
	}
}
