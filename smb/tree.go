package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// tree is one share connected on one connection.
type tree struct {
	m      *mount // whose tree it is
	c      *conn
	id     uint32
	share  string
	kind   proto.ShareType
	guard  protection // sealed: the share asks for encryption, whatever the session does
	dfs    bool
	caps   proto.ShareCapabilities
	access proto.Access
}

// connectTree connects the share \\host\share.
func (c *conn) connectTree(ctx context.Context, host, share string) (*tree, error) {
	cl := c.newCall(proto.CommandTreeConnect, 0)
	// 3.1.1 wants it signed on every session that can (3.2.4.2.4): it proves that
	// nobody changed the set-up.
	cl.force = c.agreed.dialect >= proto.Dialect311
	req := proto.TreeConnectRequest{Path: `\\` + host + `\` + share}
	if err := c.roundTrip(ctx, cl, &req, inClear); err != nil {
		return nil, err
	}
	defer cl.release()
	r, err := proto.DecodeTreeConnectResponse(cl.message())
	if err != nil {
		c.fail(lost(err))
		return nil, lost(err)
	}
	t := &tree{
		c: c, share: share, kind: r.Type, caps: r.Capabilities, access: r.MaximalAccess,
		id:  le.Uint32(cl.message()[proto.OffsetTreeID:]),
		dfs: r.Capabilities&proto.ShareCapDFS != 0,
	}
	if r.Flags&proto.ShareFlagEncryptData != 0 {
		t.guard = sealed
	}
	if sec := c.sec.Load(); t.guard == sealed && sec.sealer == nil {
		t.disconnect(ctx)
		return nil, securityError("the share must be encrypted, and the session has no key for it")
	}
	if err := t.validate(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// disconnect gives the tree up on the server.
func (t *tree) disconnect(ctx context.Context) error {
	cl := t.c.newCall(proto.CommandTreeDisconnect, t.id)
	if err := t.c.roundTrip(ctx, cl, simple{}, t.guard); err != nil {
		return err
	}
	cl.release()
	return nil
}

// call takes a slot for a request on this tree.
func (t *tree) call(cmd proto.Command) *call { return t.c.newCall(cmd, t.id) }

// roundTrip is the connection's, encrypted as the share demands.
func (t *tree) roundTrip(ctx context.Context, cl *call, req request, expected ...proto.Status) error {
	return t.c.roundTrip(ctx, cl, req, t.guard, expected...)
}

// do is roundTrip for a request whose reply says nothing but success.
func (t *tree) do(ctx context.Context, cl *call, req request) error {
	if err := t.roundTrip(ctx, cl, req); err != nil {
		return err
	}
	cl.release()
	return nil
}

// malformed ends the connection over a reply that a decoder refused.
func (t *tree) malformed(err error) error {
	err = lost(err)
	t.c.fail(err)
	return err
}
