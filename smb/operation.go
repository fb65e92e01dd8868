package smb

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// operation is what a method does on a file or directory of a share. What holds for it otherwise is the rule of its kind.
type operation struct {
	kind   opKind
	name   string // of the file, as the program gave it
	suffix string // behind the name on the server: that of a stream
	// do gets the tree and the remote name at which the links in name end, with the suffix. It runs again for each link on the way, and
	// for each repetition.
	do func(ctx context.Context, v view, remote string) error
}

// view is a tree as one operation uses it.
type view struct {
	*tree
	kind     opKind
	snapshot proto.Filetime // in which files are opened; zero: the current version
}

// run runs op under the share's context, within Limits.OperationTimeout.
func (s *Share) run(op operation) error {
	ctx, cancel := s.m.s.bounded(s.ctx)
	defer cancel()
	return s.runIn(ctx, op)
}

// runIn is run under a context that is bounded already.
func (s *Share) runIn(ctx context.Context, op operation) error {
	remote, err := s.remote(op.name)
	if err != nil {
		return err
	}
	rule := op.kind.rule()
	do := func(ctx context.Context, v view, remote string) error {
		remote += op.suffix
		if rule.changes.has(changesContent) {
			defer v.m.s.streams.changed(v.m, remote)
		}
		return op.do(ctx, v, remote)
	}
	v := view{kind: op.kind, snapshot: s.snapshot}
	connect := func() (_ *tree, err error) {
		v.tree, err = s.m.tree(ctx, new(rootCount))
		return v.tree, err
	}
	return s.m.s.run(ctx, rule, new(budget), connect, func() error {
		if rule.links == notFollowed {
			return do(ctx, v, remote)
		}
		return s.follow(ctx, v, remote, do)
	})
}

// run runs an operation of the kind on the open file, under a context that is bounded already. do may run again, with another tree and id.
func (h *openFile) run(ctx context.Context, kind opKind, do func(t *tree, id proto.FileID) error) error {
	rule := kind.rule()
	if rule.changes.has(changesContent) {
		defer h.changed()
	}
	var t *tree
	var id proto.FileID
	connect := func() (_ *tree, err error) {
		t, id, err = h.live(ctx, rule.order)
		return t, err
	}
	return h.m.s.run(ctx, rule, new(budget), connect, func() error { return h.closedByServer(do(t, id)) })
}

// run makes attempts at an operation until one ends it, or its budget is used up: nothing else decides whether there is another attempt.
// connect finds where to send the requests of the operation, and changes no file; do sends them.
func (s *Session) run(ctx context.Context, rule opRule, b *budget, connect func() (*tree, error), do func() error) error {
	for {
		t, err := connect()
		connected := err == nil
		if connected {
			b.connected()
			err = do()
			if err == nil || rule.repeat == sentOnce && !notBegun(err) {
				return err
			}
		}
		if !b.retry(ctx, s, t, err) {
			if !connected && b.losses >= maxLosses {
				err = &dialError{err} // the server can be reached, but not used
			}
			return err
		}
	}
}

// notBegun reports whether err says that the server has not begun the operation: it had closed the share before the first request, or the
// session had expired.
func notBegun(err error) bool {
	if errors.Is(err, conn.ErrReauthenticated) {
		return true
	}
	var refused *ResponseError
	return hasStatus(err, proto.StatusNetworkNameDeleted) && errors.As(err, &refused) &&
		(refused.Command == proto.CommandCreate.String() || refused.Command == proto.CommandChangeNotify.String())
}
