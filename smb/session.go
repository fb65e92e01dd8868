package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// Session is one user logged in to one server. It is safe for concurrent use. A lost
// connection is dialled again when next needed, unless the Dialer says not to.
type Session struct {
	cfg     Dialer
	servers []*server // one, or the controllers of a domain

	lock   chan struct{} // capacity 1, full when free: the goroutine that dials holds it
	done   chan struct{} // closed by Close
	mu     sync.Mutex
	cur    *conn.Conn
	at     int // of the server in use: cur's, once there is one
	closed bool
	failed dialFailure // of the last attempts to dial
	mounts []*mount
	others map[string]*Session // DFS: servers referred to, by address
	leases leaseTable

	referrals referrals

	streams streams
}

// dialFailure is why the last attempts to replace a connection failed.
type dialFailure struct {
	series int // counts them
	err    error
}

// newSession makes a session with the server at the first of addrs that answers.
func newSession(cfg Dialer, addrs ...string) *Session {
	if cfg.ClientGUID == [16]byte{} {
		rand.Read(cfg.ClientGUID[:]) // never fails (crypto/rand)
	}
	s := &Session{cfg: cfg, lock: make(chan struct{}, 1), done: make(chan struct{})}
	s.lock <- struct{}{}
	for _, addr := range addrs {
		s.servers = append(s.servers, s.newServer(addr))
	}
	return s
}

// newConnConfig is what connections with the named server are made with.
func (s *Session) newConnConfig(host string) *conn.Config {
	cfg, l := &s.cfg, &s.cfg.Limits
	c := &conn.Config{
		Pool: cfg.Pool, Host: host, ClientGUID: cfg.ClientGUID,
		Authenticate: func(ctx context.Context, host string) (spnego.Mechanism, error) {
			return cfg.Initiator.Start(ctx, host)
		},
		RequireSigning: cfg.RequireSigning, RequireEncryption: cfg.RequireEncryption, AllowGuest: cfg.AllowGuest,
		MaxRead: l.MaxRead, MaxWrite: l.MaxWrite, MaxTransact: l.MaxTransact,
		Credits: l.Credits, LoginTimeout: l.DialTimeout, KeepAlive: l.KeepAlive,
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

// current is the connection in use, nil when none was ever made; closed is true
// after Close.
func (s *Session) current() (c *conn.Conn, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur, s.closed
}

// conn is a live connection with the user logged in, made anew where necessary.
func (s *Session) conn(ctx context.Context) (*conn.Conn, error) {
	return s.connSince(ctx, s.failures())
}

// failures counts the series of attempts to replace a connection that have failed.
func (s *Session) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed.series
}

// connSince is conn for a caller that has waited since there were so many failures: it
// shares the outcome of a series that ended meanwhile.
func (s *Session) connSince(ctx context.Context, failures int) (*conn.Conn, error) {
	c, closed := s.current()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil && c.Alive():
		return c, nil
	case c != nil && (s.cfg.NoReconnect || errors.Is(c.Err(), ErrSecurity)):
		return nil, c.Err() // someone may be in between: not to be passed over in silence
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
	case c != nil && c.Alive(): // another caller was faster
		return c, nil
	case failed.series != failures: // or has just failed
		return nil, failed.err
	case c == nil:
		return s.dial(ctx)
	}
	return s.redial(ctx)
}

// Pauses between the attempts to replace a lost connection.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// redial replaces a lost connection. A server that is being restarted refuses for a while:
// attempts are repeated, with growing pauses, within Limits.RedialTimeout.
func (s *Session) redial(ctx context.Context) (*conn.Conn, error) {
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		c, err := s.dial(ctx)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		if !errors.Is(err, ErrConnLost) || time.Since(begun)+pause > s.cfg.Limits.RedialTimeout {
			s.mu.Lock()
			s.failed = dialFailure{s.failed.series + 1, err}
			s.mu.Unlock()
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, conn.ContextError(ctx)
		case <-s.done:
			return nil, ErrClosed
		}
	}
}

// maxRepeats is how often an operation is repeated that lost its connection.
const maxRepeats = 4

// again runs op, which does no harm when it is done twice, and again when it lost its
// connection.
func (s *Session) again(ctx context.Context, op func() error) error {
	for n := 0; ; n++ {
		err := op()
		if n == maxRepeats || !s.repeatable(err) || ctx.Err() != nil {
			return err
		}
	}
}

// repeatable reports whether err is the loss of a connection that another may replace, or of a
// request that was refused because the session had expired.
func (s *Session) repeatable(err error) bool {
	return s.replaces(err) || errors.Is(err, conn.ErrReauthenticated)
}

// replaces reports whether err is the loss of a connection that another may replace.
func (s *Session) replaces(err error) bool {
	if err == nil || s.cfg.NoReconnect || !errors.Is(err, ErrConnLost) ||
		errors.Is(err, ErrHandleLost) || errors.As(err, new(*dialError)) {
		return false
	}
	_, closed := s.current()
	return !closed
}

// Echo sends an ECHO and waits for its reply.
func (s *Session) Echo(ctx context.Context) error {
	c, err := s.conn(ctx)
	if err != nil {
		return err
	}
	return c.Echo(ctx)
}

// Logoff ends the session on the server and closes the connection. Open files are
// closed by the server. The session is closed whatever the error.
func (s *Session) Logoff(ctx context.Context) error {
	var err error
	if c, closed := s.current(); closed {
		return ErrClosed
	} else if c != nil && c.Alive() {
		err = c.Logoff(ctx)
	}
	return errors.Join(err, s.Close())
}

// Close closes the connection without a LOGOFF; the server ends the session
// itself. What is under way fails with ErrConnLost; later calls fail with ErrClosed.
// When Close returns, the session holds no memory of the pool but what its unfinished
// calls do.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	close(s.done)
	c, others := s.cur, s.others
	s.others = nil
	s.mu.Unlock()
	if c != nil {
		c.Close(ErrClosed)
	}
	s.streams.close()
	for _, o := range others {
		o.Close()
	}
	return nil
}

// Info is what was agreed at the last log-in.
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

// Mount connects the share named share: "photos", or `\\server\photos` whose server
// part is ignored. The name IPC$ gives the server's pipes.
func (s *Session) Mount(ctx context.Context, share string) (*Share, error) {
	name, err := shareName(share)
	if err != nil {
		return nil, err
	}
	m := &mount{s: s, name: name, lock: make(chan struct{}, 1)}
	m.lock <- struct{}{}
	if _, err := m.tree(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.mounts = append(s.mounts, m)
	s.mu.Unlock()
	return &Share{m: m, ctx: context.Background()}, nil
}

// forget drops a mount that was unmounted.
func (s *Session) forget(m *mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts = slices.DeleteFunc(s.mounts, func(x *mount) bool { return x == m })
}

// mount is a share as the user knows it; its tree changes with every connection.
type mount struct {
	s    *Session
	name string
	lock chan struct{} // capacity 1, full when free: the goroutine that connects holds it

	mu     sync.Mutex
	t      *tree
	root   *referral // the share is a DFS root on other servers, and has no tree of its own
	closed bool
}

func (m *mount) current() (*tree, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.t, m.closed
}

// tree is the share connected on a live connection, connected anew where necessary.
func (m *mount) tree(ctx context.Context) (*tree, error) {
	t, closed := m.current()
	if closed {
		return nil, ErrClosed
	}
	if t != nil && t.Conn().Alive() {
		return t, nil
	}
	m.mu.Lock()
	root := m.root
	m.mu.Unlock()
	if root != nil {
		return m.rootTree(ctx, root)
	}
	failures := m.s.failures()
	select {
	case <-m.lock:
	case <-ctx.Done():
		return nil, conn.ContextError(ctx)
	}
	defer func() { m.lock <- struct{}{} }()
	if t, closed := m.current(); !closed && t != nil && t.Conn().Alive() {
		return t, nil
	}
	c, err := m.s.connSince(ctx, failures)
	if err != nil {
		return nil, err
	}
	with := m.s.using() // c's, or c has ended
	connected, err := c.Connect(ctx, with.host, m.name)
	if hasStatus(err, proto.StatusBadNetworkName) {
		if root, rerr := m.findRoot(ctx, c); rerr == nil {
			m.mu.Lock()
			m.root = root
			m.mu.Unlock()
			return m.rootTree(ctx, root)
		}
	}
	if err != nil {
		return nil, err
	}
	t = &tree{connected, m, with}
	m.mu.Lock()
	m.t = t
	m.mu.Unlock()
	return t, nil
}

// drop gives up a tree that the server no longer knows.
func (m *mount) drop(t *tree) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.t == t {
		m.t = nil
	}
}
