package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// durability is what it takes to get an open file back on another connection (MS-SMB2
// 3.2.4.4): a durable handle of version 2, which the server keeps as long as the
// handle's lease is not broken.
type durability struct {
	granted bool
	create  [16]byte // CreateGuid
	lease   [16]byte // lease key; zero: a batch oplock keeps the handle
	request proto.CreateRequest
}

// makeDurable adds to a CREATE what asks for a durable handle, where the dialect has them.
func (t *tree) makeDurable(ctx context.Context, req *proto.CreateRequest) (durability, error) {
	var d durability
	cfg := &t.m.s.cfg
	if cfg.NoDurable || cfg.NoReconnect || t.Conn().Terms().Dialect < proto.Dialect300 || t.Kind() != proto.ShareDisk || snapshotOf(ctx) != 0 {
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
		t.m.s.leases.expect(d.lease, t)
		req.Contexts.Lease = proto.Lease{Version: proto.LeaseV2, Key: d.lease, State: proto.LeaseRead | proto.LeaseHandle}
	} else {
		req.Oplock = proto.OplockBatch
	}
	d.request = *req
	return d, nil
}

// grant notes what the server gave of what makeDurable asked for.
func (h *handle) grant(d durability) {
	d.granted = h.grants.Durable == proto.DurableRequestV2
	h.mu.Lock()
	h.durable = d
	h.mu.Unlock()
	switch h.oplock {
	case proto.OplockNone:
		h.m.s.leases.dismiss(d.lease)
	case proto.OplockLease: // noted before it was asked for
	default:
		h.m.s.leases.keep(h)
	}
}

// again runs op on the file, and again on a connection that replaces one it lost. op does
// no harm when it is done twice.
func (h *handle) again(ctx context.Context, op func(t *tree, id proto.FileID) error) error {
	return h.m.s.again(ctx, func() error {
		t, id, err := h.live(ctx)
		if err != nil {
			return err
		}
		return op(t, id)
	})
}

// reopen gets the file back on a new connection, or tells why it is lost.
func (h *handle) reopen(ctx context.Context) (t *tree, id proto.FileID, err error) {
	select {
	case <-h.reopening:
	case <-ctx.Done():
		return nil, id, conn.ContextError(ctx)
	}
	defer func() { h.reopening <- struct{}{} }()
	err = h.m.s.again(ctx, func() (err error) {
		t, id, err = h.reopenOnce(ctx)
		return err
	})
	return t, id, err
}

func (h *handle) reopenOnce(ctx context.Context) (*tree, proto.FileID, error) {
	var none proto.FileID
	h.mu.Lock()
	t, id, closed, gone, d := h.t, h.id, h.closed, h.gone, h.durable
	h.mu.Unlock()
	switch { // another caller may have done it meanwhile
	case closed:
		return nil, none, ErrClosed
	case gone != nil:
		return nil, none, gone
	case t.Conn().Alive():
		return t, id, nil
	}
	cause, with := t.Conn().Err(), t.with
	t, err := h.m.tree(ctx)
	if err != nil {
		return nil, none, err
	}
	if t.with != with { // which may take another file for it
		return nil, none, h.giveUp(fmt.Errorf("%w: it was open on %s: %w", ErrHandleLost, with.host, cause))
	}
	if !d.granted && h.isDir {
		return h.reopenDir(ctx, t)
	}
	if !d.granted {
		return nil, none, h.giveUp(fmt.Errorf("%w: %w", ErrHandleLost, cause))
	}
	req := d.request
	// It is the open file that is wanted, not another one by its name: what would make or
	// empty a file may do so once, and that was when it was opened first.
	req.Disposition = proto.DispositionOpen
	req.Contexts.QueryOnDiskID = false // Samba takes what gets a handle back only without other contexts
	req.Contexts.Durable = proto.Durable{Kind: proto.DurableReconnectV2, FileID: id, CreateGUID: d.create}
	if d.request.Oplock == proto.OplockLease {
		h.m.s.leases.expect(d.lease, t)
	}
	r, err := t.create(ctx, &req)
	if err != nil {
		if errors.As(err, new(*ResponseError)) {
			err = h.giveUp(fmt.Errorf("%w: %w", ErrHandleLost, err))
		}
		return nil, none, err
	}
	if r.Action != proto.ActionOpened || r.FileID.Persistent != id.Persistent {
		// The server passed over what asked for the open file and opened one anew, which may
		// be another by now.
		t.closeID(ctx, r.FileID)
		return nil, none, h.giveUp(fmt.Errorf("%w: the server opened another file instead", ErrHandleLost))
	}
	h.mu.Lock()
	h.t, h.id = t, r.FileID
	// Without its lease or oplock the server will not keep the file open another time.
	h.durable.granted = r.Oplock == proto.OplockBatch ||
		r.Oplock == proto.OplockLease && r.Contexts.Lease.State&proto.LeaseHandle != 0
	h.mu.Unlock()
	return t, r.FileID, nil
}

// reopenDir opens a directory again by its name, on another connection: an open directory
// has no state but how far it was listed.
func (h *handle) reopenDir(ctx context.Context, t *tree) (*tree, proto.FileID, error) {
	var none proto.FileID
	req := listRequest(h.remote)
	req.Contexts.Timewarp = h.at
	r, err := t.create(ctx, req)
	if err != nil {
		if errors.As(err, new(*ResponseError)) {
			err = h.giveUp(fmt.Errorf("%w: %w", ErrHandleLost, err))
		}
		return nil, none, err
	}
	// The id alone tells: servers make a time of creation up where their disk has none.
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

// giveUp makes err the answer to every later use.
func (h *handle) giveUp(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = err
	return err
}
