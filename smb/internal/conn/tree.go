package conn

import (
	"context"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Tree is one share connected on one connection. It is safe for concurrent use.
type Tree struct {
	c          *Conn
	id         uint32
	kind       proto.ShareType
	protection protection                // sealed: the share requires encryption, whether or not the session does
	lost       atomic.Pointer[connError] // not nil: the server has closed the share, and this is its refusal
}

// Connect connects the share \\host\share (TREE_CONNECT). When it fails although the server has connected the share, as when ctx
// ends meanwhile, the tree is disconnected again.
func (c *Conn) Connect(ctx context.Context, host, share string) (*Tree, error) {
	cl := c.newCall(proto.CommandTreeConnect, 0)
	// It is signed on every session that has a key: required of 3.1.1 (3.2.4.2.4), and in 3.0 the reply says whether the share
	// must be encrypted.
	cl.force = c.agreed.Dialect >= proto.Dialect300
	cl.Undo = disconnectAgain
	req := proto.TreeConnectRequest{Path: `\\` + host + `\` + share}
	if err := c.roundTrip(ctx, cl, &req, inClear); err != nil {
		return nil, err
	}
	defer cl.Release()
	t, err := connected(cl)
	if err != nil {
		return nil, c.malformed(err)
	}
	if sec := c.sec.Load(); t.protection == sealed && sec.sealer == nil {
		t.Disconnect(ctx)
		return nil, securityError("the share must be encrypted, and the session has no key for it")
	}
	if err := t.validate(ctx); err != nil {
		t.Disconnect(ctx)
		return nil, err
	}
	return t, nil
}

// connected is the tree of the successful reply in cl.
func connected(cl *Call) (*Tree, error) {
	r, err := proto.DecodeTreeConnectResponse(cl.Message())
	if err != nil {
		return nil, err
	}
	t := &Tree{c: cl.c, id: le.Uint32(cl.Message()[proto.OffsetTreeID:]), kind: r.Type}
	if r.Flags&proto.ShareFlagEncryptData != 0 {
		t.protection = sealed
	}
	return t, nil
}

// disconnectAgain disconnects the tree of a TREE_CONNECT whose caller has returned.
func disconnectAgain(cl *Call) {
	if t, err := connected(cl); err == nil {
		t.Disconnect(context.Background())
	}
}

// Conn is the tree's connection.
func (t *Tree) Conn() *Conn { return t.c }

// Alive reports whether requests may still be sent: the connection has not ended, and the server is not known to have closed the share.
func (t *Tree) Alive() bool { return t.lost.Load() == nil && t.c.Alive() }

// Err is the reason why the tree ended, nil while it has not. It matches one of ErrLost, ErrProtocol and ErrSecurity.
func (t *Tree) Err() error {
	if err := t.lost.Load(); err != nil {
		return err
	}
	return t.c.Err()
}

// Kind is the share's type.
func (t *Tree) Kind() proto.ShareType { return t.kind }

// Disconnect disconnects the tree on the server (TREE_DISCONNECT).
// It is a detached request (Call.Detached).
func (t *Tree) Disconnect(ctx context.Context) error {
	cl := t.Call(proto.CommandTreeDisconnect)
	cl.Detached = true
	return t.Do(ctx, cl, simple{})
}

// Call takes a slot for a request on this tree. The slot is released by the first method that returns an
// error for it, or by Call.Release.
func (t *Tree) Call(cmd proto.Command) *Call {
	cl := t.c.newCall(cmd, t.id)
	cl.on = t
	return cl
}

// RoundTrip sends one request and waits for its reply. When the error is nil the caller releases cl. A
// refusal by the server, unless its status is among expected, is returned as the error of Config.Refused, and
// cl is released.
func (t *Tree) RoundTrip(ctx context.Context, cl *Call, req Request, expected ...proto.Status) error {
	return t.c.roundTrip(ctx, cl, req, t.protection, expected...)
}

// Start sends one request without waiting for its reply; Call.Finish waits. On error cl is released.
func (t *Tree) Start(ctx context.Context, cl *Call, req Request, policy CreditPolicy) error {
	if policy == WaitForCredits {
		return t.c.start(ctx, cl, req, t.protection)
	}
	want := t.c.charged(max(len(cl.Payload), cl.Expect))
	mid, charge, ok := t.c.credits.try(want, want)
	if !ok {
		cl.Release()
		return ErrNoCredits
	}
	return t.c.startWith(ctx, cl, req, t.protection, mid, charge)
}

// Do is RoundTrip for a request whose reply has no content. It releases cl.
func (t *Tree) Do(ctx context.Context, cl *Call, req Request) error {
	return t.c.do(ctx, cl, req, t.protection)
}

// Compound is CompoundReplies, but returns the first refusal. When the error is nil the caller releases the calls.
func (t *Tree) Compound(ctx context.Context, compound []Compounded) error {
	err := t.CompoundReplies(ctx, compound)
	if err == nil {
		if err = FirstRefusal(compound); err != nil {
			ReleaseAll(compound)
		}
	}
	return err
}

// CompoundReplies sends related requests in one frame and waits for all replies, refusals among them (FirstRefusal). When
// the error is nil the caller releases the calls. When the server does not grant enough credits for all of
// them together, it fails with ErrNoCredits and nothing was sent. It does so on 2.0.2, too: of the servers
// that support nothing newer, impacket's signs the replies of a compound before it sets their NextCommand, so
// that only the last signature is right.
func (t *Tree) CompoundReplies(ctx context.Context, compound []Compounded) error {
	if t.c.agreed.Dialect == proto.Dialect202 {
		ReleaseAll(compound)
		return ErrNoCredits
	}
	return t.c.compound(ctx, compound, t.protection)
}

// Malformed ends the connection because a decoder refused a reply, and returns the error for the caller.
func (t *Tree) Malformed(err error) error { return t.c.malformed(err) }

// Sealed reports whether the tree's messages are encrypted.
func (t *Tree) Sealed() bool {
	sec := t.c.sec.Load()
	return t.protection == sealed || sec.encryptAll
}

// protected reports whether the tree's requests are encrypted or signed.
func (t *Tree) protected() bool {
	sec := t.c.sec.Load()
	return t.protection == sealed || sec.encryptAll || sec.signAll
}

// Affordable is n, the length of a reply in bytes; or the length that one credit allows, when the server has
// granted too few credits for n.
func (t *Tree) Affordable(n int) int {
	if t.c.charged(n) > t.c.credits.total() {
		return min(n, 65536)
	}
	return n
}
