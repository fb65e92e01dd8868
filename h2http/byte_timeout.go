package h2http

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// byteTimeoutConn is a connection that is used under HTTP2Config.WriteByteTimeout: a Write fails once no byte has been taken for so
// long. It is not used without that setting, since what is not a *net.TCPConn is written to piece by piece.
type byteTimeoutConn struct {
	net.Conn
	timeout time.Duration

	mu    sync.Mutex
	limit time.Time // package h2's deadline for writing; zero: none
}

func withByteTimeout(nc net.Conn, conf *http.HTTP2Config) net.Conn {
	if conf == nil || conf.WriteByteTimeout <= 0 {
		return nc
	}
	return &byteTimeoutConn{Conn: nc, timeout: conf.WriteByteTimeout}
}

// maxUntimed is how many bytes a connection that may not say how much of them it has written, such as one of TLS, is given at a time.
const maxUntimed = 16 << 10

// Write writes p.
func (c *byteTimeoutConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		limit := c.extend()
		m, err := c.Conn.Write(p[n:min(n+maxUntimed, len(p))])
		n += m
		if err != nil && (m == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || limit) {
			return n, err
		}
	}
	return n, nil
}

// extend sets the deadline of the next Write and reports whether that is package h2's.
func (c *byteTimeoutConn) extend() (limit bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now().Add(c.timeout)
	if limit = !c.limit.IsZero() && c.limit.Before(t); limit {
		t = c.limit
	}
	c.Conn.SetWriteDeadline(t)
	return limit
}

// SetDeadline sets both deadlines.
func (c *byteTimeoutConn) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline bounds Write, also one that is under way.
func (c *byteTimeoutConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	return c.Conn.SetWriteDeadline(t)
}
