package smb

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// durability is what it takes to get an open file back on another connection.
type durability struct{}

// mayRevive reports that err is the loss of a connection that is dialled again.
func (h *handle) mayRevive(err error) bool {
	return errors.Is(err, ErrConnLost) && !h.m.s.cfg.NoReconnect
}

// revived reports that err is the loss of a connection and that the file has been
// opened again on another, so that what failed can be tried again.
func (h *handle) revived(err error) bool { return false }

func (h *handle) reopen(ctx context.Context, old *tree) (*tree, proto.FileID, error) {
	return nil, h.id, ErrHandleLost
}

func (l *leaseTable) forget(h *handle) {}
