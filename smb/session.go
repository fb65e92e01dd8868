package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
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
	at      int // index of the server in use: that of cur, once there is one
	closed  bool
	failed  *redialError // of the last attempt to replace a connection; nil: it succeeded
	refused *loginError  // the last login, if it was refused
	mounts  []*mount     // the program's, unless unmounted
	leases  leaseTable

	// origin is the session that the program has dialled, which DFS links led to this one; usually this one itself. Only its
	// referrals and linkTargets are used.
	origin      *Session
	referrals   referrals
	linkTargets linkTargets // guarded by mu

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
	s.origin = s
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
		Authenticate: func(ctx context.Context, host string) (spnego.Mechanism, error) {
			return cfg.Initiator.Start(ctx, host)
		},
		SignAll: !cfg.AllowUnsigned, RequireEncryption: cfg.RequireEncryption,
		RequireKey: cfg.RequireSigning || cfg.RequireEncryption, AllowGuest: cfg.AllowGuest,
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
	case failed != nil && (failed != seen || time.Now().Before(failed.next)): // or has just failed to
		return nil, failed
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
		if s.cfg.Limits.RedialTimeout > 0 {
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
	c, others := s.cur, s.linkTargets.sessions
	s.linkTargets = linkTargets{}
	s.mu.Unlock()
	if c != nil {
		c.Close(ErrClosed)
	}
	s.streams.close()
	for _, o := range others {
		o.Close()
	}
	s.origin.forgetLinkedSession(s)
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
		Guest: a.Guest, Anonymous: a.Anonymous,
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
	connect := func() (*tree, error) { return m.connectedTree(ctx, new(way)) }
	if err := s.run(ctx, opMount.rule(), new(budget), connect, func() error { return nil }); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.mounts = append(s.mounts, m)
	s.mu.Unlock()
	return &Share{m: m, ctx: context.Background()}, nil
}

// forget removes a mount that was unmounted.
func (s *Session) forget(m *mount) {
	s.mu.Lock()
	s.mounts = slices.DeleteFunc(s.mounts, func(x *mount) bool { return x == m })
	s.mu.Unlock()
	s.origin.forgetLinked(m)
}

// mount is a mounted share; its tree changes with every connection.
type mount struct {
	s    *Session
	name string
	lock chan struct{} // capacity 1, full when free: taken by the goroutine that connects

	noDiskIDs atomic.Bool // the server does not report the ids of directories that it opens

	mu     sync.Mutex
	t      *tree
	root   *referral // not nil: the share is a DFS root on other servers, and has no tree
	closed bool
}

func newMount(s *Session, name string) *mount {
	m := &mount{s: s, name: name, lock: make(chan struct{}, 1)}
	m.lock <- struct{}{}
	return m
}

// current is the share's live tree, or the referral of a DFS root in its lifetime, or neither.
func (m *mount) current() (*tree, *referral, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, nil, ErrClosed
	case m.t != nil && m.t.Alive():
		return m.t, nil, nil
	case m.root != nil && m.root.valid():
		return nil, m.root, nil
	}
	return nil, nil, nil
}

// connected reports whether the share, or the root that it is, has been found.
func (m *mount) connected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.t != nil || m.root != nil
}

// tree is connectedTree for an operation on a file.
func (m *mount) tree(ctx context.Context, passed *way) (*tree, error) {
	t, err := m.connectedTree(ctx, passed)
	var refused *ResponseError
	if errors.As(err, &refused) && refused.Command == proto.CommandTreeConnect.String() && !errors.Is(err, ErrConnLost) {
		err = &lostError{ErrShareLost, err}
	}
	return t, err
}

// connectedTree returns the share's tree on a live connection, and connects it if necessary.
func (m *mount) connectedTree(ctx context.Context, passed *way) (*tree, error) {
	t, root, err := m.current()
	if err == nil && t == nil && root == nil {
		t, root, err = m.connect(ctx)
	}
	if err != nil || t != nil {
		return t, err
	}
	return m.rootTree(ctx, root, passed)
}

// connect connects the share, or finds that it is a DFS root on other servers. It does not follow the root: the targets may be
// roots themselves, and lead back. A root whose lifetime has ended stays in use while its server cannot be reached.
func (m *mount) connect(ctx context.Context) (*tree, *referral, error) {
	seen := m.s.lastFailure()
	select {
	case <-m.lock:
	case <-ctx.Done():
		return nil, nil, conn.ContextError(ctx)
	}
	defer func() { m.lock <- struct{}{} }()
	if t, root, err := m.current(); err != nil || t != nil || root != nil {
		return t, root, err // by another goroutine meanwhile
	}
	t, root, err := m.find(ctx, seen)
	m.mu.Lock()
	switch {
	case m.closed: // by Unmount, which has disconnected nothing
		m.mu.Unlock()
		if t != nil {
			t.Disconnect(ctx)
		}
		return nil, nil, ErrClosed
	case err == nil:
		m.t, m.root = t, root
	case m.root != nil && errors.Is(err, ErrConnLost) && ctx.Err() == nil:
		root, err = m.root, nil
		root.keep(rootRetry)
	case ctx.Err() == nil && !errors.Is(err, ErrConnLost):
		m.root = nil // the server has answered, and has neither the share nor the root
	}
	m.mu.Unlock()
	return t, root, err
}

// find connects the share, or asks for the root that has its name.
func (m *mount) find(ctx context.Context, seen *redialError) (*tree, *referral, error) {
	c, err := m.s.connSince(ctx, seen)
	if err != nil {
		return nil, nil, err
	}
	with := m.s.using() // c's, or c has ended
	connected, err := c.Connect(ctx, with.host, m.name)
	if err == nil {
		return &tree{Tree: connected, m: m, with: with}, nil, nil
	}
	if hasStatus(err, proto.StatusBadNetworkName) {
		root, rerr := m.findRoot(ctx, c)
		if rerr == nil {
			return nil, root, nil
		}
		if errors.Is(rerr, ErrConnLost) || ctx.Err() != nil {
			return nil, nil, rerr // whether the share exists is not known
		}
	}
	return nil, nil, err
}
