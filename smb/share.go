package smb

import (
	"context"
	"io/fs"
	"os"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Share is a mounted share. Its methods are those of package os, on names relative to the share's root with
// "/" or "\" between components. It is safe for concurrent use. Its operations run under the context of
// [Share.WithContext], at first the background context.
type Share struct {
	m        *mount
	ctx      context.Context
	snapshot proto.Filetime // its time; zero: the current version
}

// WithContext returns the same mount with another context for its operations.
func (s *Share) WithContext(ctx context.Context) *Share {
	if ctx == nil {
		panic("smb: nil context")
	}
	return &Share{m: s.m, ctx: ctx, snapshot: s.snapshot}
}

// Name is the share's name.
func (s *Share) Name() string { return s.m.name }

// Session is the session in which the share was mounted.
func (s *Share) Session() *Session { return s.m.s }

// Unmount disconnects the share. The server closes files that are open on it. Every Share of the same Mount
// is closed with it. TREE_DISCONNECT is sent as Close of a File sends CLOSE.
func (s *Share) Unmount() error {
	m := s.m
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	m.closed = true
	t := m.t
	m.mu.Unlock()
	m.s.namespace.remove(m)
	if t == nil || !t.Alive() {
		return nil
	}
	ctx, cancel := s.m.s.closing(s.ctx)
	defer cancel()
	err := t.Disconnect(ctx)
	if hasStatus(err, proto.StatusNetworkNameDeleted) {
		return nil // the server has closed the share before
	}
	return err
}

func nothing() {}

// bounded applies the Dialer's OperationTimeout to an operation.
func (s *Session) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := s.cfg.Limits.OperationTimeout; d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return ctx, nothing
}

// closing returns the context in which to close or disconnect: even if ctx has ended, the answer is waited for, at most
// for Limits.CloseTimeout.
func (s *Session) closing(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	bound := s.cfg.Limits.CloseTimeout
	if d := s.cfg.Limits.OperationTimeout; d > 0 {
		bound = min(bound, d)
	}
	return context.WithTimeout(ctx, bound)
}

// pathError wraps err as package os does.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// linkError is pathError for two names.
func linkError(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}
