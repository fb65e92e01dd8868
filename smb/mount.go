package smb

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// mount is a mounted share; its tree changes with every connection.
type mount struct {
	s    *Session
	name string
	lock chan struct{} // capacity 1, full when free: taken by the goroutine that connects

	noDiskIDs atomic.Bool // the server does not report the ids of directories that it opens
	posix     atomic.Bool // the last tree has the POSIX extensions

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
func (m *mount) tree(ctx context.Context, roots *rootCount) (*tree, error) {
	t, err := m.connectedTree(ctx, roots)
	if refused, ok := errors.AsType[*ResponseError](err); ok && refused.Command == proto.CommandTreeConnect.String() && !errors.Is(err, ErrConnLost) {
		err = &lostError{ErrShareLost, err}
	}
	return t, err
}

// connectedTree returns the share's tree on a live connection, and connects it if necessary.
func (m *mount) connectedTree(ctx context.Context, roots *rootCount) (*tree, error) {
	t, root, err := m.current()
	if err == nil && t == nil && root == nil {
		t, root, err = m.connect(ctx)
	}
	if err != nil || t != nil {
		return t, err
	}
	return m.rootTree(ctx, root, roots)
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
		t := &tree{Tree: connected, m: m, with: with}
		if err := t.findPOSIX(ctx); err != nil {
			t.Disconnect(ctx)
			return nil, nil, err
		}
		m.posix.Store(t.posix)
		return t, nil, nil
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
