package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Session is the session of one user on one server. It is safe for concurrent use. A lost connection is
// dialled again when it is next needed, unless Dialer.NoReconnect is set.
type Session struct {
	cfg     Dialer
	servers []*server // one, or the controllers of a domain
	ownGUID bool      // the client's GUID is not one that the program has chosen

	lock    chan struct{} // capacity 1, full when free: taken by the goroutine that dials
	done    chan struct{} // closed by Close
	mu      sync.Mutex
	cur     *conn.Conn
	inUse   int // index of the server in use: that of cur, once there is one
	closed  bool
	failed  *redialError // of the last attempt to replace a connection; nil: it succeeded
	refused *loginError  // the last login, if it was refused
	leases  leaseTable

	namespace *namespace // of the session that the program has dialled: this one, or that whose DFS links led to this one

	streams    streams
	unanswered unanswered

	traffic    conn.Traffic
	reconnects atomic.Uint64 // connections that have replaced one
}

// newSession makes a session with the server at the first of addrs that answers.
func newSession(cfg Dialer, addrs ...string) *Session {
	own := cfg.ClientGUID == [16]byte{}
	if own {
		rand.Read(cfg.ClientGUID[:]) // never fails (crypto/rand)
	}
	s := &Session{cfg: cfg, ownGUID: own, lock: make(chan struct{}, 1), done: make(chan struct{})}
	s.namespace = &namespace{dialled: s}
	s.lock <- struct{}{}
	for _, addr := range addrs {
		s.servers = append(s.servers, s.newServer(addr))
	}
	return s
}

// newConnConfig makes the settings of connections with the named server.
func (s *Session) newConnConfig(host string) *conn.Config {
	cfg, l := &s.cfg, &s.cfg.Limits
	c := &conn.Config{
		Pool: cfg.Pool, Traffic: &s.traffic, Host: host, ClientGUID: cfg.ClientGUID,
		Authenticate: cfg.Initiator.Start,
		SignAll:      !cfg.AllowUnsigned, RequireEncryption: cfg.RequireEncryption,
		RequireKey: cfg.RequireSigning || cfg.RequireEncryption, AllowGuest: cfg.AllowGuest, POSIX: cfg.POSIX,
		MaxRead: l.MaxRead, MaxWrite: l.MaxWrite, MaxTransact: l.MaxTransact,
		Credits: l.Credits, LoginTimeout: l.DialTimeout, KeepAlive: l.KeepAlive, RequestTimeout: cfg.RequestTimeout,
		Refused: refused, Broken: s.leases.broken,
	}
	for _, d := range dialects() {
		if d >= cfg.MinDialect && d <= cfg.MaxDialect {
			c.Dialects = append(c.Dialects, proto.Dialect(d))
		}
	}
	for _, x := range cfg.Ciphers {
		c.Ciphers = append(c.Ciphers, proto.Cipher(x))
	}
	for _, x := range cfg.Signers {
		c.Signers = append(c.Signers, proto.SigningAlgorithm(x))
	}
	return c
}

// current is the connection in use, nil when none has been made; closed is true after Close.
func (s *Session) current() (c *conn.Conn, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur, s.closed
}

// conn returns a live connection with the user logged in. If there is none it makes one attempt to make one.
func (s *Session) conn(ctx context.Context) (*conn.Conn, error) {
	return s.connSince(ctx, s.lastFailure())
}

// lastFailure is the error of the last attempt to replace a connection; nil: it succeeded.
func (s *Session) lastFailure() *redialError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// connSince is conn for a caller that has been waiting since the last attempt had failed with seen: it shares the result of one that has
// ended meanwhile.
func (s *Session) connSince(ctx context.Context, seen *redialError) (*conn.Conn, error) {
	c, closed := s.current()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil && c.Alive():
		return c, nil
	case c != nil && (s.cfg.NoReconnect || errors.Is(c.Err(), ErrSecurity)):
		return nil, c.Err() // an attacker may be on the path: report it, do not reconnect
	}
	select {
	case <-s.lock:
	case <-ctx.Done():
		return nil, conn.ContextError(ctx)
	}
	defer func() { s.lock <- struct{}{} }()
	s.mu.Lock()
	c, closed, failed := s.cur, s.closed, s.failed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil && c.Alive(): // another goroutine has made one
		return c, nil
	case failed != nil && failed != seen: // or has just failed to
		return nil, failed
	case failed != nil && time.Now().Before(failed.next): // the caller has to wait, and has not waited yet
		return nil, &redialError{err: failed.err, begun: time.Now(), next: failed.next}
	}
	if err := s.loginRefusal(); err != nil {
		return nil, err
	}
	if c == nil {
		return s.dial(ctx)
	}
	return s.redial(ctx, failed)
}

// redial makes one attempt to replace a lost connection. before is the error of the last one; nil: it succeeded. A server that is
// restarting refuses connections for a while: between attempts are growing pauses, whichever operations make them.
func (s *Session) redial(ctx context.Context, before *redialError) (*conn.Conn, error) {
	begun := time.Now()
	c, err := s.dial(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, err // it concerns this caller alone
	}
	var failed *redialError
	if err != nil {
		failed = &redialError{err: err, begun: begun, pause: firstPause}
		if before != nil && begun.Sub(before.next) < longestPause {
			failed.pause = min(2*before.pause, longestPause)
		}
		if s.cfg.Limits.RedialTimeout > 0 && errors.Is(err, ErrConnLost) { // otherwise its operation does not wait, and the next one need not
			failed.next = time.Now().Add(failed.pause)
		}
		err = failed
	}
	s.mu.Lock()
	s.failed = failed
	s.mu.Unlock()
	return c, err
}

// repeatable reports whether err is the loss of a connection that another may replace, or the refusal of a
// request because the session had expired.
func (s *Session) repeatable(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, conn.ErrReauthenticated):
		return true
	case s.cfg.NoReconnect, !errors.Is(err, ErrConnLost), errors.Is(err, ErrHandleLost), errors.Is(err, conn.ErrUnanswered):
		return false
	case errors.As(err, new(*dialError)) && !errors.As(err, new(*redialError)):
		return false // no connection to replace
	}
	_, closed := s.current()
	return !closed
}

// Echo sends an ECHO and waits for its reply.
func (s *Session) Echo(ctx context.Context) error { return s.Check(ctx, 0) }

// Check reports whether the server answers, as Echo does, but sends nothing when the server has sent something within
// the last recent.
func (s *Session) Check(ctx context.Context, recent time.Duration) error {
	var c *conn.Conn
	connect := func() (_ *tree, err error) {
		c, err = s.conn(ctx)
		return nil, err
	}
	return s.run(ctx, opEcho.rule(), new(budget), connect, func() error { return c.Echo(ctx, recent) })
}

// Logoff ends the session on the server and closes the connection. The server closes open files. The session
// is closed whatever the error.
func (s *Session) Logoff(ctx context.Context) error {
	var err error
	if c, closed := s.current(); closed {
		return ErrClosed
	} else if c != nil && c.Alive() {
		err = c.Logoff(ctx)
	}
	return errors.Join(err, s.Close())
}

// Close closes the connection without a LOGOFF; the server ends the session itself. Running operations fail
// with ErrConnLost; later calls fail with ErrClosed. When Close returns, the session holds no pooled memory
// except that of its unfinished calls.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	close(s.done)
	c := s.cur
	s.mu.Unlock()
	if c != nil {
		c.Close(ErrClosed)
	}
	s.streams.close()
	for _, other := range s.namespace.close(s) {
		other.Close()
	}
	return nil
}

// Info returns what the last login negotiated.
func (s *Session) Info() SessionInfo {
	c, _ := s.current()
	addr := s.using().addr
	if c == nil {
		return SessionInfo{Addr: addr}
	}
	a := c.Terms()
	return SessionInfo{
		Addr: addr, Dialect: Dialect(a.Dialect), ServerGUID: a.ServerGUID,
		Signing: a.SignAll, Signer: Signer(a.Signing), Encrypted: a.EncryptAll, Cipher: Cipher(a.Cipher),
		Guest: a.Guest, Anonymous: a.Anonymous, POSIX: a.POSIX,
		MaxRead: a.MaxRead, MaxWrite: a.MaxWrite, MaxTransact: a.MaxTransact,
	}
}

// Mount connects to the share named share: "photos", or `\\server\photos`, whose server part is ignored. The
// share IPC$ has the server's named pipes.
func (s *Session) Mount(ctx context.Context, share string) (*Share, error) {
	name, err := shareName(share)
	if err != nil {
		return nil, err
	}
	m := newMount(s, name)
	connect := func() (*tree, error) { return m.connectedTree(ctx, new(rootCount)) }
	if err := s.run(ctx, opMount.rule(), new(budget), connect, func() error { return nil }); err != nil {
		return nil, err
	}
	s.namespace.add(m)
	return &Share{m: m, ctx: context.Background()}, nil
}
