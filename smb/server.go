package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
)

// server is one of a session's possible servers. Several servers are replicas of one another, as a domain's
// controllers are, but a file that is open on one is not open on another.
type server struct {
	addr string
	host string // its name for the Initiator and in share paths

	// Read and changed by the goroutine that dials.
	config *conn.Config  // for its connections
	waited time.Duration // spent on login attempts that the server did not answer
}

func (s *Session) newServer(addr string) *server {
	host := s.cfg.Host
	if host == "" {
		host = addr
		if h, _, err := net.SplitHostPort(addr); err == nil {
			host = h
		}
	}
	return &server{addr: addr, host: host, config: s.newConnConfig(host)}
}

// using returns the server in use: that of the last connection, or the first one.
func (s *Session) using() *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[s.inUse]
}

// dial makes a connection and logs in: with the server in use or, when that cannot be reached, with the next
// one that can.
func (s *Session) dial(ctx context.Context) (*conn.Conn, error) {
	if len(s.servers) == 1 {
		return s.dialServer(ctx, 0)
	}
	s.mu.Lock()
	first := s.inUse
	s.mu.Unlock()
	var failed error
	for i := range s.servers {
		index := (first + i) % len(s.servers)
		c, err := s.dialServer(ctx, index)
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", s.servers[index].host, err))
		if ctx.Err() != nil || !unreachable(err) {
			break
		}
	}
	return nil, failed
}

// dialServer makes a connection with the server with this index and logs in.
//
// A server may still hold the lost connection, or the process that served it, and not answer the same client until that has
// ended: Samba hands connections with the ClientGUID of a living process to that process, and ends a session that
// SESSION_SETUP names as the previous one before it answers, however long that takes. So after attempts that were not
// answered for Limits.DialTimeout, of one caller or of several, another is made as a new client. If that succeeds, the server
// answers others, and waiting longer for the old session is of no use; durable handles are lost then.
//
// Not so if the lost connection had a request that changes something, and that was not answered: the server still may have to
// carry it out, and would do so after the requests of the new client. Only the end of the old session prevents that.
func (s *Session) dialServer(ctx context.Context, index int) (c *conn.Conn, err error) {
	l := &s.cfg.Limits
	to := s.servers[index]
	same := identity{to.config, s.previous(index)}
	mayChange := same.previous != 0 && s.ownGUID && l.RedialTimeout > 0 && !s.lostChange()
	if !mayChange || to.waited < l.DialTimeout {
		begun, answered := time.Now(), false
		if c, answered, err = s.attempt(ctx, index, same, l.DialTimeout); answered {
			to.waited = 0
			return c, err
		}
		to.waited += time.Since(begun)
	}
	if !mayChange || to.waited < l.DialTimeout || ctx.Err() != nil {
		return c, err
	}
	to.waited = 0
	other := *same.config
	rand.Read(other.ClientGUID[:]) // never fails (crypto/rand)
	c, _, err = s.attempt(ctx, index, identity{config: &other}, min(l.DialTimeout, l.RedialTimeout))
	return c, err
}

// attempt makes a connection as the client who and logs in, within limit. The error of an attempt that reaches the limit matches
// ErrConnLost, like that of a refused connection, and redial makes another attempt. answered is false if the server accepted the
// connection, but the limit passed or ctx ended before it answered.
func (s *Session) attempt(ctx context.Context, index int, who identity, limit time.Duration) (c *conn.Conn, answered bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	nc, err := s.cfg.DialFunc(limited, "tcp", s.servers[index].addr)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, true, conn.ContextError(ctx)
		case limited.Err() != nil:
			err = conn.ContextError(limited)
		}
		return nil, true, &dialError{err}
	}
	c, err = s.setUp(limited, nc, index, who)
	answered = err == nil || limited.Err() == nil
	if err != nil && (errors.Is(err, ErrConnLost) || !answered && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)) {
		return nil, answered, &dialError{err}
	}
	return c, answered, s.noteLogin(err)
}

// identity is the client that the server sees.
type identity struct {
	config   *conn.Config // with its ClientGUID
	previous uint64       // the session of the lost connection, which the new one replaces; zero: none
}

// adopt is conn for a connection that the caller made.
func (s *Session) adopt(ctx context.Context, nc net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.DialTimeout)
	defer cancel()
	_, err := s.setUp(ctx, nc, 0, identity{config: s.servers[0].config})
	return s.noteLogin(err)
}

// setUp negotiates and logs in on nc, a connection with the server with this index. It takes ownership of nc. From then on the
// session is the client who.
func (s *Session) setUp(ctx context.Context, nc net.Conn, index int, who identity) (*conn.Conn, error) {
	c, err := conn.Open(ctx, nc, who.config, who.previous)
	if err != nil {
		return nil, err
	}
	if last, _ := s.current(); last != nil && last.Keyed() && !c.Keyed() {
		c.Close(errBecameGuest)
		return nil, errBecameGuest
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.Close(ErrClosed)
		return nil, ErrClosed
	}
	old := s.cur
	s.cur, s.inUse = c, index
	s.servers[index].config = who.config
	s.mu.Unlock()
	if old != nil {
		s.reconnects.Add(1)
		old.Wait()
	}
	return c, nil
}

// errBecameGuest is the error of a login in place of a lost connection. Dialer.AllowGuest holds for the first login: what a program
// has begun with a server that knew its user's password is not continued without protection.
var errBecameGuest = fmt.Errorf("%w: the session was protected, and the server now accepts the user as a guest", ErrSecurity)

// previous is the id of the session on the broken connection, which the server with this index then ends at
// once; zero when there was none, or it was with another server.
func (s *Session) previous(index int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil || s.inUse != index {
		return 0
	}
	return s.cur.Terms().SessionID
}

// lostChange reports whether the lost connection has a request that changes something and was not answered.
func (s *Session) lostChange() bool {
	c, _ := s.current()
	return c.LostChange()
}

// unreachable reports whether a server could not be reached, and so has refused nothing.
func unreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, ErrConnLost) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
