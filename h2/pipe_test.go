package h2

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// half is one direction of an in-memory connection with a bounded buffer.
type half struct {
	mu       sync.Mutex
	cond     sync.Cond
	buf      []byte
	max      int
	closed   bool
	deadline time.Time // of the reader
	wdead    time.Time // of the writer
}

func newHalf() *half {
	h := &half{max: 64 << 10}
	h.cond.L = &h.mu
	return h
}

// memConn is an in-memory net.Conn.
type memConn struct{ r, w *half }

type memAddr struct{}

func (memAddr) Network() string { return "mem" }
func (memAddr) String() string  { return "mem" }

// bufferedPipe returns the two ends of an in-memory connection that, unlike
// net.Pipe, buffers as a socket does.
func bufferedPipe() (net.Conn, net.Conn) {
	x, y := newHalf(), newHalf()
	return &memConn{x, y}, &memConn{y, x}
}

func (c *memConn) Read(p []byte) (int, error) {
	h := c.r
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 {
		if h.closed {
			return 0, io.EOF
		}
		if !h.deadline.IsZero() && !time.Now().Before(h.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		h.cond.Wait()
	}
	n := copy(p, h.buf)
	h.buf = h.buf[:copy(h.buf, h.buf[n:])]
	h.cond.Broadcast()
	return n, nil
}

func (c *memConn) Write(p []byte) (int, error) {
	h := c.w
	h.mu.Lock()
	defer h.mu.Unlock()
	total := 0
	for len(p) > 0 {
		if h.closed {
			return total, io.ErrClosedPipe
		}
		if !h.wdead.IsZero() && !time.Now().Before(h.wdead) {
			return total, os.ErrDeadlineExceeded
		}
		if room := h.max - len(h.buf); room > 0 {
			n := min(room, len(p))
			h.buf = append(h.buf, p[:n]...)
			p = p[n:]
			total += n
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
	return total, nil
}

func (c *memConn) Close() error {
	c.r.close()
	c.w.close()
	return nil
}

func (h *half) close() {
	h.mu.Lock()
	h.closed = true
	h.cond.Broadcast()
	h.mu.Unlock()
}

func (h *half) wakeAt(t time.Time) {
	if t.IsZero() {
		return
	}
	time.AfterFunc(time.Until(t), func() {
		h.mu.Lock()
		h.cond.Broadcast()
		h.mu.Unlock()
	})
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.r.mu.Lock()
	c.r.deadline = t
	c.r.cond.Broadcast()
	c.r.mu.Unlock()
	c.r.wakeAt(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.w.mu.Lock()
	c.w.wdead = t
	c.w.cond.Broadcast()
	c.w.mu.Unlock()
	c.w.wakeAt(t)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memConn) LocalAddr() net.Addr  { return memAddr{} }
func (c *memConn) RemoteAddr() net.Addr { return memAddr{} }
