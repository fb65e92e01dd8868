package conn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// maxLoginMessages bounds the messages of one authentication; no mechanism needs more than four.
const maxLoginMessages = 16

// login sets up a session (3.2.4.2.3, 3.2.5.3): tokens are exchanged until both sides are done, and the
// session's keys are derived.
func (c *Conn) login(ctx context.Context, previous uint64) error {
	preauth := c.agreed.preauth
	return c.authenticate(ctx, previous, &preauth, c.secure)
}

// accepted handles the reply by which the server accepts an authentication.
type accepted func(cl *Call, r *proto.SessionSetupResponse, auth *spnego.Client, session uint64, preauth *crypt.Preauth) error

// authenticate runs one authentication, for a new session or for the existing one.
func (c *Conn) authenticate(ctx context.Context, previous uint64, preauth *crypt.Preauth, accept accepted) error {
	mech, err := c.cfg.Authenticate(ctx, c.cfg.Host)
	if err != nil {
		return fmt.Errorf("smb: authentication: %w", err)
	}
	auth := spnego.New(mech)
	token, err := auth.Step(ctx, c.agreed.token)
	if err != nil {
		return fmt.Errorf("smb: authentication: %w", err)
	}
	var session uint64
	for range maxLoginMessages {
		cl := c.newCall(proto.CommandSessionSetup, 0)
		cl.session, cl.preauth = session, preauth
		cl.force = true // signed when there are keys already (3.2.4.1.1)
		req := proto.SessionSetupRequest{
			SecurityMode: c.agreed.offer.SecurityMode,
			Capabilities: c.agreed.offer.Capabilities & proto.CapDFS,
			Token:        token,

			PreviousSessionID: previous,
		}
		if err := c.roundTrip(ctx, cl, &req, inClear, proto.StatusMoreProcessingRequired); err != nil {
			return err
		}
		more := cl.Status == proto.StatusMoreProcessingRequired
		if more {
			preauth.Update(cl.Message())
		}
		r, err := proto.DecodeSessionSetupResponse(cl.Message())
		if err != nil {
			err = classified(err)
		} else {
			session = le.Uint64(cl.Message()[proto.OffsetSessionID:])
			token, err = answer(ctx, auth, r.Token, cl.Status)
		}
		if err == nil && session == 0 {
			err = ProtocolError("session without an id") // the replies of such a session would not be compared with it
		}
		if err == nil && !more {
			err = accept(cl, &r, auth, session, preauth)
		}
		cl.Release()
		if err != nil || !more {
			return err
		}
	}
	return ProtocolError("authentication does not end")
}

// answer passes the server's token in to auth and returns the next one to send, if the reply's status says that the server expects
// another. An authentication ends on both sides at once: a server that accepts the user earlier has proved nothing.
func answer(ctx context.Context, auth *spnego.Client, in []byte, status proto.Status) (out []byte, err error) {
	more := status == proto.StatusMoreProcessingRequired
	out, err = auth.Step(ctx, in)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, fs.ErrPermission)):
		return nil, fmt.Errorf("smb: authentication: %w", err) // not by the server's token
	case err != nil:
		return nil, &connError{ErrSecurity, fmt.Errorf("authentication: %w", err)}
	case more && auth.Done():
		return nil, securityError("the server asks for a token after the last one")
	case !more && !auth.Done():
		return nil, securityError("the server accepted the user before the authentication was complete")
	}
	return out, nil
}

// secure derives the keys of a session that the server has accepted, and verifies the accepting reply. Whether or not the session's
// messages will be signed, that reply must be, in every dialect (3.2.5.3.1 requires it of 3.x, and of 2.x where messages are signed):
// only its signature shows that the server knows the key, and so the password.
func (c *Conn) secure(cl *Call, r *proto.SessionSetupResponse, auth *spnego.Client, session uint64, preauth *crypt.Preauth) error {
	cfg, a := c.cfg, &c.agreed
	sec := &security{sessionID: session}
	a.SessionID, a.Guest, a.Anonymous = session, r.Flags&proto.SessionGuest != 0, r.Flags&proto.SessionNull != 0
	key := auth.SessionKey()
	if len(key) == 0 || a.Guest || a.Anonymous {
		switch {
		case cfg.RequireKey:
			return securityError("the server accepted the user as a guest, whose session cannot be protected")
		case len(key) > 0 && !cfg.AllowGuest:
			return &connError{ErrSecurity, ErrGuest}
		}
		a.Anonymous = !a.Guest // some servers do not set the flag
		c.sec.Store(sec)
		return nil
	}
	keys := crypt.DeriveKeys(a.Dialect, a.Cipher, key, preauth)
	var err error
	if sec.signer, err = crypt.NewSigner(a.Signing, keys.Signing); err != nil {
		return err
	}
	if a.Cipher != proto.CipherNone {
		if sec.sealer, err = crypt.NewSealer(a.Cipher, keys.Encrypt); err != nil {
			return err
		}
		if sec.opener, err = crypt.NewOpener(a.Cipher, keys.Decrypt); err != nil {
			return err
		}
	}
	sec.signAll = cfg.SignAll || a.mode&proto.SigningRequired != 0
	sec.encryptAll = cfg.RequireEncryption || r.Flags&proto.SessionEncrypt != 0
	if sec.encryptAll && sec.sealer == nil {
		return securityError("encryption is required, and the server has no cipher in common")
	}
	a.SignAll, a.EncryptAll = sec.signAll, sec.encryptAll
	c.sec.Store(sec)
	if proto.Flags(le.Uint32(cl.Message()[proto.OffsetFlags:]))&proto.FlagSigned == 0 {
		return securityError("unsigned end of SESSION_SETUP")
	}
	return cl.verify()
}
