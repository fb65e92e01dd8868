package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Session is one user logged in to one server. It is safe for concurrent use. A lost
// connection is dialled again when next needed, unless the Dialer says not to.
type Session struct {
	cfg  Dialer
	addr string
	host string
	guid [16]byte // ClientGuid, the same on every connection

	lock   chan struct{} // capacity 1, full when free: whoever dials holds it
	done   chan struct{} // closed by Close
	mu     sync.Mutex
	cur    *conn
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

func newSession(cfg Dialer, addr string) *Session {
	s := &Session{cfg: cfg, addr: addr, host: cfg.Host, lock: make(chan struct{}, 1), done: make(chan struct{})}
	s.lock <- struct{}{}
	if s.guid = cfg.ClientGUID; s.guid == [16]byte{} {
		rand.Read(s.guid[:]) // never fails (crypto/rand)
	}
	if s.host == "" {
		s.host = addr
		if h, _, err := net.SplitHostPort(addr); err == nil {
			s.host = h
		}
	}
	return s
}

// current is the connection in use, nil when none was ever made; closed is true
// after Close.
func (s *Session) current() (c *conn, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur, s.closed
}

// conn is a live connection with the user logged in, made anew where necessary.
func (s *Session) conn(ctx context.Context) (*conn, error) {
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
func (s *Session) connSince(ctx context.Context, failures int) (*conn, error) {
	c, closed := s.current()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil && c.alive():
		return c, nil
	case c != nil && (s.cfg.NoReconnect || errors.Is(c.err(), ErrSecurity)):
		return nil, c.err() // someone may be in between: not to be passed over in silence
	}
	select {
	case <-s.lock:
	case <-ctx.Done():
		return nil, ctxError(ctx)
	}
	defer func() { s.lock <- struct{}{} }()
	s.mu.Lock()
	c, closed, failed := s.cur, s.closed, s.failed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil && c.alive(): // another caller was faster
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
func (s *Session) redial(ctx context.Context) (*conn, error) {
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
			return nil, ctxError(ctx)
		case <-s.done:
			return nil, ErrClosed
		}
	}
}

// dial makes a connection and logs in.
func (s *Session) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.DialTimeout)
	defer cancel()
	nc, err := s.cfg.DialFunc(ctx, "tcp", s.addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctxError(ctx)
		}
		return nil, &dialError{err}
	}
	c, err := s.setUp(ctx, nc)
	if err != nil && errors.Is(err, ErrConnLost) {
		err = &dialError{err}
	}
	return c, err
}

// maxRepeats is how often an operation is repeated that lost its connection.
const maxRepeats = 4

// again runs op, which does no harm when it is done twice, and again when it lost its
// connection.
func (s *Session) again(ctx context.Context, op func() error) error {
	for n := 0; ; n++ {
		err := op()
		if n == maxRepeats || !s.replaces(err) || ctx.Err() != nil {
			return err
		}
	}
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

// adopt is conn on a connection of the caller's.
func (s *Session) adopt(ctx context.Context, nc net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.DialTimeout)
	defer cancel()
	_, err := s.setUp(ctx, nc)
	return err
}

// setUp negotiates and logs in on nc, which it owns.
func (s *Session) setUp(ctx context.Context, nc net.Conn) (*conn, error) {
	c := newConn(nc, &s.cfg, s.guid)
	c.onBreak = s.leases.broken
	err := c.negotiate(ctx, s.host)
	if err == nil {
		err = c.login(ctx, s.host, s.previous())
	}
	s.mu.Lock()
	if err == nil && s.closed {
		err = ErrClosed
	}
	if err != nil {
		s.mu.Unlock()
		c.end(err)
		return nil, err
	}
	old := s.cur
	s.cur = c
	s.mu.Unlock()
	if old != nil {
		old.work.wait()
	}
	if s.cfg.Limits.KeepAlive > 0 {
		c.work.run(func() { c.keepAlive(s.cfg.Limits.KeepAlive) })
	}
	return c, nil
}

// previous is the id of the session on the connection that broke, which the server
// then gives up at once; zero when there was none.
func (s *Session) previous() uint64 {
	if c, _ := s.current(); c != nil {
		if sec := c.sec.Load(); sec != nil {
			return sec.sessionID
		}
	}
	return 0
}

// keepAlive sends an ECHO whenever nothing was heard for a while, and gives the
// connection up when that brings nothing either.
func (c *conn) keepAlive(every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-timer.C:
		}
		silent := time.Since(c.begun) - time.Duration(c.heard.Load())
		if silent < every {
			timer.Reset(every - silent)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		err := c.echo(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.fail(&connError{ErrConnLost, errors.New("the server gives no sign of life")})
		}
		timer.Reset(every)
	}
}

// Echo asks the server for a sign of life.
func (s *Session) Echo(ctx context.Context) error {
	c, err := s.conn(ctx)
	if err != nil {
		return err
	}
	return c.echo(ctx)
}

// Logoff ends the session on the server and closes the connection. Open files are
// closed by the server. The session is closed whatever the error.
func (s *Session) Logoff(ctx context.Context) error {
	var err error
	if c, closed := s.current(); closed {
		return ErrClosed
	} else if c != nil && c.alive() {
		err = c.logoff(ctx)
	}
	return errors.Join(err, s.Close())
}

// Close closes the connection without a word to the server, which ends the session
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
		c.end(ErrClosed)
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
	if c == nil {
		return SessionInfo{Addr: s.addr}
	}
	a, sec := &c.agreed, c.sec.Load()
	i := SessionInfo{
		Addr: s.addr, Dialect: Dialect(a.dialect), ServerGUID: a.serverGUID,
		Signer: Signer(a.signing), Cipher: Cipher(a.cipher),
		MaxRead: a.maxRead, MaxWrite: a.maxWrite, MaxTransact: a.maxTransact,
	}
	if sec != nil {
		i.Signing, i.Encrypted = sec.signAll, sec.encryptAll
		i.Guest, i.Anonymous = sec.guest, sec.anonymous
	}
	return i
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
	lock chan struct{} // capacity 1, full when free: whoever connects holds it

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
	if t != nil && t.c.alive() {
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
		return nil, ctxError(ctx)
	}
	defer func() { m.lock <- struct{}{} }()
	if t, closed := m.current(); !closed && t != nil && t.c.alive() {
		return t, nil
	}
	c, err := m.s.connSince(ctx, failures)
	if err != nil {
		return nil, err
	}
	t, err = c.connectTree(ctx, m.s.host, m.name)
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
	t.m = m
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
