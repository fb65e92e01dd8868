package smb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/tarn-go/tarn/smb/internal/conn"
)

// server is one of a session's possible servers. Several servers are replicas of one another, as a domain's
// controllers are, but a file that is open on one is not open on another.
type server struct {
	addr   string
	host   string       // its name for the Initiator and in share paths
	config *conn.Config // for its connections
}

func (s *Session) newServer(addr string) *server {
	host := s.cfg.Host
	if host == "" {
		host = addr
		if h, _, err := net.SplitHostPort(addr); err == nil {
			host = h
		}
	}
	return &server{addr, host, s.newConnConfig(host)}
}

// using returns the server in use: that of the last connection, or the first one.
func (s *Session) using() *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[s.at]
}

// dial makes a connection and logs in: with the server in use or, when that cannot be reached, with the next
// one that can.
func (s *Session) dial(ctx context.Context) (*conn.Conn, error) {
	if len(s.servers) == 1 {
		return s.dialServer(ctx, 0)
	}
	s.mu.Lock()
	first := s.at
	s.mu.Unlock()
	var failed error
	for i := range s.servers {
		at := (first + i) % len(s.servers)
		c, err := s.dialServer(ctx, at)
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", s.servers[at].host, err))
		if ctx.Err() != nil || !unreachable(err) {
			break
		}
	}
	return nil, failed
}

// dialServer makes a connection with the server with index at and logs in. An attempt that reaches Limits.DialTimeout has
// found no server, as one that is refused has not: its error matches ErrConnLost, and redial makes another.
func (s *Session) dialServer(ctx context.Context, at int) (*conn.Conn, error) {
	attempt, cancel := context.WithTimeout(ctx, s.cfg.Limits.DialTimeout)
	defer cancel()
	nc, err := s.cfg.DialFunc(attempt, "tcp", s.servers[at].addr)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, conn.ContextError(ctx)
		case attempt.Err() != nil:
			err = conn.ContextError(attempt)
		}
		return nil, &dialError{err}
	}
	c, err := s.setUp(attempt, nc, at)
	if err != nil && (errors.Is(err, ErrConnLost) || attempt.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)) {
		return nil, &dialError{err}
	}
	return c, s.noteLogin(err)
}

// adopt is conn for a connection that the caller made.
func (s *Session) adopt(ctx context.Context, nc net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.DialTimeout)
	defer cancel()
	_, err := s.setUp(ctx, nc, 0)
	return s.noteLogin(err)
}

// setUp negotiates and logs in on nc, a connection with the server with index at. It takes ownership of nc.
func (s *Session) setUp(ctx context.Context, nc net.Conn, at int) (*conn.Conn, error) {
	c, err := conn.Open(ctx, nc, s.servers[at].config, s.previous(at))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.Close(ErrClosed)
		return nil, ErrClosed
	}
	old := s.cur
	s.cur, s.at = c, at
	s.mu.Unlock()
	if old != nil {
		old.Wait()
	}
	return c, nil
}

// previous is the id of the session on the broken connection, which the server with index at then ends at
// once; zero when there was none, or it was with another server.
func (s *Session) previous(at int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil || s.at != at {
		return 0
	}
	return s.cur.Terms().SessionID
}

// unreachable reports whether a server could not be reached, and so has refused nothing.
func unreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, ErrConnLost) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
