package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// durability is the state needed to reopen a file on another connection (MS-SMB2 3.2.4.4): a durable handle
// of version 2, which the server keeps as long as the handle's lease is not broken.
type durability struct {
	granted bool
	create  [16]byte // CreateGuid
	lease   [16]byte // lease key; zero: the handle is kept by a batch oplock
	request proto.CreateRequest
}

// maxUndurable is how many files in a row a server opens without a durable handle, although it grants the lease that
// such a handle needs, before none is requested any more for that mounted share on that connection. Samba does that for every file of a share
// unless its options permit durable handles, and for single files that are no regular ones.
const maxUndurable = 3

// makeDurable adds the create contexts that request a durable handle, where the dialect has them and the server has not
// refused them maxUndurable times in a row. A lease or oplock is requested for the sake of the durable handle alone: without one it would only
// have to be given up, in a round trip of its own, when the file is opened again.
func (t view) makeDurable(ctx context.Context, req *proto.CreateRequest) (durability, error) {
	var d durability
	cfg := &t.m.s.cfg
	if cfg.NoDurable || cfg.NoReconnect || t.Conn().Terms().Dialect < proto.Dialect300 || t.Kind() != proto.ShareDisk || t.snapshot != 0 ||
		t.undurable.Load() >= maxUndurable {
		return d, nil
	}
	if _, err := rand.Read(d.create[:]); err != nil {
		return d, err
	}
	req.Contexts.Durable = proto.Durable{Kind: proto.DurableRequestV2, CreateGUID: d.create}
	if t.Conn().Terms().Capabilities&proto.CapLeasing != 0 {
		if _, err := rand.Read(d.lease[:]); err != nil {
			return d, err
		}
		req.Oplock = proto.OplockLease
		t.m.s.leases.expect(d.lease, t.tree)
		req.Contexts.Lease = proto.Lease{Version: proto.LeaseV2, Key: d.lease, State: proto.LeaseRead | proto.LeaseHandle}
	} else {
		req.Oplock = proto.OplockBatch
	}
	d.request = *req
	return d, nil
}

// grant stores which of the contexts of makeDurable the server granted.
func (h *openFile) grant(d durability) {
	d.granted = h.grants.Durable == proto.DurableRequestV2
	h.mu.Lock()
	h.durable = d
	t := h.t
	h.mu.Unlock()
	switch {
	case d.granted:
		t.undurable.Store(0)
	case h.durableRefused(d):
		t.undurable.Add(1)
	}
	switch h.oplock {
	case proto.OplockNone:
		h.m.s.leases.dismiss(d.lease)
	case proto.OplockLease: // stored before the request
	default:
		h.m.s.leases.keep(h)
	}
}

// durableRefused reports whether the server granted what a durable handle of a file needs, but no durable handle. Directories and
// streams do not count: a server may refuse it for those alone.
func (h *openFile) durableRefused(d durability) bool {
	if d.request.Contexts.Durable.Kind != proto.DurableRequestV2 || h.isDir || strings.Contains(h.remote, ":") {
		return false
	}
	return h.oplock == proto.OplockBatch || h.oplock == proto.OplockLease && h.grants.Lease.State&proto.LeaseHandle != 0
}

// ready is live, again within the budget when the new connection is lost, too.
func (h *openFile) ready(ctx context.Context, b *budget) (t *tree, id proto.FileID, err error) {
	connect := func() (_ *tree, err error) {
		t, id, err = h.live(ctx, ordered)
		return t, err
	}
	err = h.m.s.run(ctx, opRule{}, b, connect, func() error { return nil })
	return t, id, err
}

// reopen tries once to reopen the file on a new connection, or returns why it is lost. When that connection is lost, too, the caller
// decides whether to try again: it counts all losses of its operation.
func (h *openFile) reopen(ctx context.Context) (*tree, proto.FileID, error) {
	var none proto.FileID
	select {
	case <-h.reopening:
	case <-ctx.Done():
		return nil, none, conn.ContextError(ctx)
	}
	defer func() { h.reopening <- struct{}{} }()
	h.mu.Lock()
	t, id, closed, lostErr := h.t, h.id, h.closed, h.lostErr
	h.mu.Unlock()
	switch { // another goroutine may have done it meanwhile
	case closed:
		return nil, none, ErrClosed
	case lostErr != nil:
		return nil, none, lostErr
	case t.Alive():
		return t, id, nil
	}
	return h.reconnect(ctx)
}

// reconnect opens the file again on the connection that replaces its lost one.
func (h *openFile) reconnect(ctx context.Context) (*tree, proto.FileID, error) {
	var none proto.FileID
	h.mu.Lock()
	t, id, d := h.t, h.id, h.durable
	h.mu.Unlock()
	cause, with := t.Err(), t.with
	t, err := h.m.tree(ctx, new(rootCount))
	if err != nil {
		return nil, none, err
	}
	if t.with != with { // on another server the handle's id may be another file's
		return nil, none, h.giveUp(fmt.Errorf("%w: it was open on %s: %w", ErrHandleLost, with.host, cause))
	}
	if !d.granted && h.isDir {
		return h.reopenDir(ctx, t)
	}
	if !d.granted {
		return nil, none, h.giveUp(fmt.Errorf("%w: %w", ErrHandleLost, cause))
	}
	req := d.request
	// The open file itself is wanted, not another file of that name. A disposition that creates or truncates
	// the file was for the first open only.
	req.Disposition = proto.DispositionOpen
	req.Contexts.QueryOnDiskID = false // Samba reconnects a durable handle only without other contexts
	req.Contexts.Durable = proto.Durable{Kind: proto.DurableReconnectV2, FileID: id, CreateGUID: d.create}
	if d.request.Oplock == proto.OplockLease {
		h.m.s.leases.expect(d.lease, t)
	}
	r, _, err := view{tree: t, kind: opReopen}.create(ctx, &req, nil)
	if err != nil {
		if errors.As(err, new(*ResponseError)) && !errors.Is(err, ErrConnLost) {
			err = h.giveUp(&lostError{ErrHandleLost, err})
		}
		return nil, none, err
	}
	if r.Action != proto.ActionOpened || r.FileID.Persistent != id.Persistent {
		// The server ignored the reconnect context and opened the name anew, which may be another file by
		// now.
		t.closeID(ctx, r.FileID)
		return nil, none, h.giveUp(fmt.Errorf("%w: the server opened another file instead", ErrHandleLost))
	}
	h.mu.Lock()
	h.t, h.id = t, r.FileID
	// Without its lease or oplock the server does not keep the handle a second time.
	h.durable.granted = r.Oplock == proto.OplockBatch ||
		r.Oplock == proto.OplockLease && r.Contexts.Lease.State&proto.LeaseHandle != 0
	h.mu.Unlock()
	h.reopened.Store(true)
	return t, r.FileID, nil
}

// reopenDir opens a directory again by its name, on another connection. The only state of an open directory
// is the position of its listing.
func (h *openFile) reopenDir(ctx context.Context, t *tree) (*tree, proto.FileID, error) {
	var none proto.FileID
	req := listRequest(h.remote)
	r, _, err := view{tree: t, kind: opReopen, snapshot: h.snapshot}.create(ctx, req, nil)
	if err != nil {
		if errors.As(err, new(*ResponseError)) && !errors.Is(err, ErrConnLost) {
			err = h.giveUp(fmt.Errorf("%w: %w", ErrHandleLost, err))
		}
		return nil, none, err
	}
	// Only the id is compared: servers invent a creation time when their disk stores none.
	was, is := &h.grants, &r.Contexts
	if was.HasDiskID && is.HasDiskID && (was.DiskFileID != is.DiskFileID || was.VolumeID != is.VolumeID) {
		t.closeID(ctx, r.FileID)
		return nil, none, h.giveUp(fmt.Errorf("%w: another directory has its name", ErrHandleLost))
	}
	h.mu.Lock()
	h.t, h.id = t, r.FileID
	h.mu.Unlock()
	return t, r.FileID, nil
}

// closedByServer gives the handle up if err is the server's refusal of a request because the handle is closed, and returns the error
// for the caller. err may be nil.
func (h *openFile) closedByServer(err error) error {
	if !hasStatus(err, proto.StatusFileClosed) && !hasStatus(err, proto.StatusFileForcedClosed) {
		return err
	}
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed { // by Close, while the request was under way
		return ErrClosed
	}
	return h.giveUp(&lostError{ErrHandleLost, err})
}

// giveUp makes every later use of the handle fail with err.
func (h *openFile) giveUp(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lostErr = err
	return err
}
