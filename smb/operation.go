package smb

import (
	"context"
	"errors"

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
	kind opKind
	at   proto.Filetime // of the snapshot in which files are opened; zero: the current version
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
	v := view{kind: op.kind, at: s.at}
	connect := func() (err error) {
		v.tree, err = s.m.tree(ctx, new(way))
		return err
	}
	return s.m.s.run(ctx, rule, 0, connect, func() error {
		if rule.links == notFollowed {
			return do(ctx, v, remote)
		}
		return s.follow(ctx, v, remote, do)
	})
}

// run runs an operation of the kind on the open file, under a context that is bounded already. do may run again, with another tree and id.
func (h *handle) run(ctx context.Context, kind opKind, do func(t *tree, id proto.FileID) error) error {
	rule := kind.rule()
	if rule.changes.has(changesContent) {
		defer h.changed()
	}
	var t *tree
	var id proto.FileID
	connect := func() (err error) {
		t, id, err = h.live(ctx, rule.order)
		return err
	}
	return h.m.s.run(ctx, rule, 0, connect, func() error { return h.closedByServer(do(t, id)) })
}

// run makes attempts at an operation that has lost as many connections before, until one ends it: this alone decides whether there is another.
// connect finds where to send the requests of the operation, and changes no file; do sends them.
func (s *Session) run(ctx context.Context, rule opRule, losses int, connect, do func() error) error {
	for ; ; losses++ {
		err := connect()
		if err == nil {
			err = do()
			if err == nil || rule.repeat == sentOnce && !refusedByShare(err) {
				return err
			}
		}
		if losses >= maxRepeats || ctx.Err() != nil || !s.repeatable(err) {
			return err
		}
	}
}

// refusedByShare reports whether err says that the server had closed the share before the first request of the operation: it has not begun
// the operation.
func refusedByShare(err error) bool {
	var refused *ResponseError
	return hasStatus(err, proto.StatusNetworkNameDeleted) && errors.As(err, &refused) &&
		(refused.Command == proto.CommandCreate.String() || refused.Command == proto.CommandChangeNotify.String())
}
