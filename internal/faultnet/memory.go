package faultnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// stream is one direction of an in-memory connection.
type stream struct {
	mu    sync.Mutex
	cond  sync.Cond
	buf   []byte
	max   int
	done  bool  // no more is written: io.EOF after buf
	err   error // both sides fail
	rdead time.Time
	wdead time.Time
}

func newStream(max int) *stream {
	s := &stream{max: max}
	s.cond.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		switch {
		case s.err != nil:
			return 0, s.err
		case expired(s.rdead):
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			s.buf = s.buf[:copy(s.buf, s.buf[n:])]
			s.cond.Broadcast()
			return n, nil
		case s.done:
			return 0, io.EOF
		}
		s.cond.Wait()
	}
	return 0, nil
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for len(p) > 0 {
		switch room := s.max - len(s.buf); {
		case s.err != nil:
			return total, s.err
		case s.done:
			return total, io.ErrClosedPipe
		case expired(s.wdead):
			return total, os.ErrDeadlineExceeded
		case room > 0:
			n := min(room, len(p))
			s.buf = append(s.buf, p[:n]...)
			p = p[n:]
			total += n
			s.cond.Broadcast()
		default:
			s.cond.Wait()
		}
	}
	return total, nil
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	f()
	s.cond.Broadcast()
	s.mu.Unlock()
}

func (s *stream) setDeadline(d *time.Time, t time.Time) {
	s.change(func() { *d = t })
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() { s.change(func() {}) })
	}
}

func expired(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// memory is one end of an in-memory connection.
type memory struct{ in, out *stream }

func memoryPair(max int) (net.Conn, end) {
	x, y := newStream(max), newStream(max)
	return hideEnd{&memory{x, y}}, &memory{y, x}
}

// hideEnd leaves the user's end without CloseWrite, as many connections are.
type hideEnd struct{ net.Conn }

func (m *memory) Read(p []byte) (int, error)  { return m.in.read(p) }
func (m *memory) Write(p []byte) (int, error) { return m.out.write(p) }

// Close ends what this end sends; what it has not read is lost.
func (m *memory) Close() error {
	m.out.change(func() { m.out.done = true })
	m.in.change(func() {
		if m.in.err == nil {
			m.in.err = net.ErrClosed
		}
	})
	return nil
}

func (m *memory) CloseWrite() error {
	m.out.change(func() { m.out.done = true })
	return nil
}

func (m *memory) Abort() {
	for _, s := range []*stream{m.in, m.out} {
		s.change(func() { s.err = syscall.ECONNRESET })
	}
}

func (m *memory) SetReadDeadline(t time.Time) error {
	m.in.setDeadline(&m.in.rdead, t)
	return nil
}

func (m *memory) SetWriteDeadline(t time.Time) error {
	m.out.setDeadline(&m.out.wdead, t)
	return nil
}

func (m *memory) SetDeadline(t time.Time) error {
	m.SetReadDeadline(t)
	return m.SetWriteDeadline(t)
}

func (m *memory) LocalAddr() net.Addr  { return addr{} }
func (m *memory) RemoteAddr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

// pipeEnd is the relay's end of a net.Pipe, and of a connection whose type Through does not know. It does not
// half-close: both kinds of ending close it.
type pipeEnd struct{ net.Conn }

func pipePair() (net.Conn, end) {
	a, b := net.Pipe()
	return a, pipeEnd{b}
}

func (e pipeEnd) CloseWrite() error { return e.Close() }
func (e pipeEnd) Abort()            { e.Close() }
