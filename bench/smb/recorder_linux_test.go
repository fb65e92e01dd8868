package bench

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// recorder keeps what is written, and does not close.
type recorder struct {
	net.Conn
	mu      sync.Mutex
	written []byte
	stopped chan struct{} // closed when reading has failed
	once    sync.Once
}

// record connects to a server.
func record(b *testing.B, addr string) *recorder {
	b.Helper()
	nc, err := net.Dial("tcp", addr)
	must(b, err)
	return &recorder{Conn: nc, stopped: make(chan struct{})}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.written = append(r.written, b...)
	r.mu.Unlock()
	return r.Conn.Write(b)
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if err != nil {
		r.once.Do(func() { close(r.stopped) })
	}
	return n, err
}

func (r *recorder) Close() error { return nil }

// take returns the frames written since the last call.
func (r *recorder) take() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := frames(r.written)
	r.written = nil
	return all
}

// frames returns copies of the frames that b consists of.
func frames(b []byte) (all [][]byte) {
	for len(b) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		all = append(all, slices.Clone(b[:n]))
		b = b[n:]
	}
	return all
}

// takeOver ends the reading of the client that has used the connection, and returns the connection's file descriptor, which blocks.
func (r *recorder) takeOver(b *testing.B) (fd int) {
	b.Helper()
	r.SetReadDeadline(time.Unix(1, 0))
	<-r.stopped
	file, err := r.Conn.(*net.TCPConn).File()
	must(b, err)
	b.Cleanup(func() { file.Close(); r.Conn.Close() })
	fd = int(file.Fd())
	must(b, syscall.SetNonblock(fd, false))
	return fd
}

// receiveAll fills b.
func receiveAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
