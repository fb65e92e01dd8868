package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

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
func (t *tree) makeDurable(req *proto.CreateRequest) (durability, error) {
	var d durability
	cfg := &t.m.s.cfg
	if cfg.NoDurable || cfg.NoReconnect || t.c.agreed.dialect < proto.Dialect300 || t.kind != proto.ShareDisk {
		return d, nil
	}
	if _, err := rand.Read(d.create[:]); err != nil {
		return d, err
	}
	req.Contexts.Durable = proto.Durable{Kind: proto.DurableRequestV2, CreateGUID: d.create}
	if t.c.agreed.caps&proto.CapLeasing != 0 {
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

// mayRevive reports that err is the loss of a connection that is dialled again.
func (h *handle) mayRevive(err error) bool {
	return errors.Is(err, ErrConnLost) && !h.m.s.cfg.NoReconnect
}

// revived reports that err is the loss of a connection and that the file has been
// opened again on another, so that what failed can be tried again.
func (h *handle) revived(ctx context.Context, err error) bool {
	if err == nil || !h.mayRevive(err) || ctx.Err() != nil {
		return false
	}
	_, _, err = h.live(ctx)
	return err == nil
}

// reopen gets the file back on a new connection, or tells why it is lost.
func (h *handle) reopen(ctx context.Context) (*tree, proto.FileID, error) {
	var none proto.FileID
	select {
	case <-h.revive:
	case <-ctx.Done():
		return nil, none, ctxError(ctx)
	}
	defer func() { h.revive <- struct{}{} }()
	h.mu.Lock()
	t, id, closed, gone, d := h.t, h.id, h.closed, h.gone, h.durable
	h.mu.Unlock()
	switch { // somebody else may have done it meanwhile
	case closed:
		return nil, none, ErrClosed
	case gone != nil:
		return nil, none, gone
	case t.c.alive():
		return t, id, nil
	}
	t, err := h.m.tree(ctx)
	if err != nil {
		return nil, none, err
	}
	if !d.granted {
		return nil, none, h.lose(ErrHandleLost)
	}
	req := d.request
	req.Contexts.Durable = proto.Durable{Kind: proto.DurableReconnectV2, FileID: id, CreateGUID: d.create}
	if d.request.Oplock == proto.OplockLease {
		h.m.s.leases.expect(d.lease, t)
	}
	cl := t.call(proto.CommandCreate)
	if err := t.roundTrip(ctx, cl, &req); err != nil {
		if errors.As(err, new(*ResponseError)) {
			err = h.lose(fmt.Errorf("%w: %w", ErrHandleLost, err))
		}
		return nil, none, err
	}
	r, err := proto.DecodeCreateResponse(cl.message())
	t.c.release(cl)
	if err != nil {
		return nil, none, t.malformed(err)
	}
	h.mu.Lock()
	h.t, h.id = t, r.FileID
	h.mu.Unlock()
	return t, r.FileID, nil
}

// lose makes err the answer to every later use.
func (h *handle) lose(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = err
	return err
}
