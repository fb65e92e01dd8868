package smb

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// operation is what a method does on a file or directory of a share.
type operation struct {
	kind opKind
	name string // of the file, as the program gave it
	// do gets the tree and the remote name at which the links in name end. It runs again for each link on the way, and for each
	// repetition.
	do func(ctx context.Context, t view, remote string) error
}

// repetition says what is done about an operation whose connection was lost.
type repetition uint8

const (
	repeated repetition = iota // it is run again, up to maxRepeats times: to run it twice is the same as once
	sentOnce                   // it fails with ErrConnLost: the server may have carried it out
)

// linkPolicy says what is done about a link in a name that the server leaves to the client.
type linkPolicy uint8

const (
	followed    linkPolicy = iota // to its target, which may be on another server
	notFollowed                   // the operation fails with the server's refusal
	openFile                      // there is no name: the file is open
)

// run runs op under the share's context, within Limits.RequestTimeout.
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
	once := func() error { return s.runOnce(ctx, remote, op) }
	if op.kind.rule().repeat == sentOnce {
		return once()
	}
	return s.m.s.again(ctx, once)
}

// runOnce runs op on a live tree, and again if the server has closed the share: then it has not begun the operation.
func (s *Share) runOnce(ctx context.Context, remote string, op operation) error {
	for closed := false; ; closed = true {
		on, err := s.m.tree(ctx, new(way))
		if err != nil {
			return err
		}
		t := view{tree: on, at: s.at, order: s.order}
		if op.kind.rule().links == notFollowed {
			err = op.do(ctx, t, remote)
		} else {
			err = s.follow(ctx, t, remote, op.do)
		}
		var refused *ResponseError
		if closed || !hasStatus(err, proto.StatusNetworkNameDeleted) || !errors.As(err, &refused) ||
			refused.Command != proto.CommandCreate.String() {
			return err
		}
	}
}
