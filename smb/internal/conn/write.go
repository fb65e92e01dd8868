package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
)

// stall is how long a write may make no progress before its context is checked.
const stall = 20 * time.Millisecond

// sender writes frames to a connection, one at a time. The goroutine that holds the token writes; it owns the
// buffer until the write has ended.
type sender struct {
	nc     net.Conn
	sent   *atomic.Uint64
	vector bool          // nc is a socket: header and payload are written by one system call, and the kernel buffers them
	token  chan struct{} // capacity 1: full when no goroutine writes
	vec    [2][]byte     // what bufs points to; under the token, like bufs
	bufs   net.Buffers
}

func (s *sender) init(nc net.Conn, sent *atomic.Uint64) {
	s.nc, s.sent = nc, sent
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		s.vector = true
	}
	s.token = make(chan struct{}, 1)
	s.token <- struct{}{}
}

// lock waits for the right to write.
func (s *sender) lock(ctx context.Context) error {
	select {
	case <-s.token:
		return nil
	default:
	}
	select {
	case <-s.token:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

func (s *sender) unlock() { s.token <- struct{}{} }

// attempt writes f from its byte sent on, under the token. It returns how many bytes of f have been sent in
// all.
func (s *sender) attempt(f *frame, sent int) (int, error) {
	now, err := s.writeFrom(f, sent)
	s.sent.Add(uint64(now - sent))
	return now, err
}

func (s *sender) writeFrom(f *frame, sent int) (int, error) {
	head := f.buf.Bytes()
	if len(f.payload) == 0 {
		n, err := s.nc.Write(head[sent:])
		return sent + n, short(n, len(head)-sent, err)
	}
	if !s.vector {
		if sent < len(head) {
			n, err := s.nc.Write(head[sent:])
			if sent += n; err != nil || sent < len(head) {
				return sent, short(n, n+1, err)
			}
		}
		rest := f.payload[sent-len(head):]
		n, err := s.nc.Write(rest)
		return sent + n, short(n, len(rest), err)
	}
	left := len(head) + len(f.payload) - sent
	if sent < len(head) {
		s.vec = [2][]byte{head[sent:], f.payload}
		s.bufs = s.vec[:]
	} else {
		s.vec[0] = f.payload[sent-len(head):]
		s.bufs = s.vec[:1]
	}
	n, err := s.bufs.WriteTo(s.nc)
	s.bufs, s.vec = nil, [2][]byte{}
	return sent + int(n), short(int(n), left, err)
}

func short(n, want int, err error) error {
	if err == nil && n < want {
		return io.ErrShortWrite
	}
	return err
}

// write takes ownership of f and sends it under the token, which it releases. When ctx ends while the
// connection accepts no data, a goroutine goes on sending the unsent part, with a copy of the payload, and write
// returns the context's error: the payload is the caller's again, and the byte stream stays intact. Any other
// error means that the connection is broken.
func (c *Conn) write(ctx context.Context, f frame) error {
	s := &c.send
	if ctx.Done() == nil {
		_, err := s.attempt(&f, 0)
		f.free()
		s.unlock()
		return err
	}
	if !s.vector {
		return c.writeCopy(ctx, f)
	}
	sent := 0
	for {
		// A deadline rather than a second goroutine: it costs nothing while the write makes progress.
		s.nc.SetWriteDeadline(time.Now().Add(stall))
		var err error
		sent, err = s.attempt(&f, sent)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			s.nc.SetWriteDeadline(time.Time{})
			f.free()
			s.unlock()
			return err
		}
		if ctx.Err() != nil {
			s.nc.SetWriteDeadline(time.Time{})
			rest := c.unsent(f, sent)
			c.work.run(func() { c.finishWrite(rest) })
			return ContextError(ctx)
		}
	}
}

// writeCopy is write for a net.Conn of unknown type, which a deadline might break (it breaks TLS for good):
// the payload is copied and a goroutine sends all of f.
func (c *Conn) writeCopy(ctx context.Context, f frame) error {
	all := c.unsent(f, 0)
	done := make(chan error, 1)
	c.work.run(func() { done <- c.finishWrite(all) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

// unsent takes ownership of f and returns its unsent part, which refers to no payload of the caller's: that is copied.
func (c *Conn) unsent(f frame, sent int) tarn.Buffer {
	head := f.buf.Bytes()
	if len(f.payload) == 0 {
		return f.buf.Narrow(sent, len(head))
	}
	rest := c.pool.Get(len(head) + len(f.payload) - sent)
	b := rest.Bytes()
	if sent < len(head) {
		n := copy(b, head[sent:])
		copy(b[n:], f.payload)
	} else {
		copy(b, f.payload[sent-len(head):])
	}
	f.free()
	return rest
}

// finishWrite sends rest under the token that it was given, and takes ownership of rest. On error it ends the
// connection.
func (c *Conn) finishWrite(rest tarn.Buffer) error {
	_, err := c.send.attempt(&frame{buf: rest}, 0)
	rest.Free()
	c.send.unlock()
	if err != nil {
		c.fail(classified(err))
	}
	return err
}
