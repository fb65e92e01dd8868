package conn

import (
	"context"
	"fmt"

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
			token, err = auth.Step(ctx, r.Token)
			if !more && len(r.Token) == 0 && auth.Done() {
				err = nil
			}
		}
		if err == nil && !more {
			err = accept(cl, &r, auth, session, preauth)
			cl.Release()
			return err
		}
		cl.Release()
		if err != nil {
			return fmt.Errorf("smb: authentication: %w", err)
		}
	}
	return ProtocolError("authentication does not end")
}

// secure derives the keys of a session that the server has accepted, and verifies the accepting reply.
func (c *Conn) secure(cl *Call, r *proto.SessionSetupResponse, auth *spnego.Client, session uint64, preauth *crypt.Preauth) error {
	cfg, a := c.cfg, &c.agreed
	sec := &security{sessionID: session}
	a.SessionID, a.Guest, a.Anonymous = session, r.Flags&proto.SessionGuest != 0, r.Flags&proto.SessionNull != 0
	key := auth.SessionKey()
	keyed := len(key) > 0 && !a.Guest && !a.Anonymous
	if !keyed && cfg.RequireKey {
		return securityError("the server accepted the user as a guest, whose session cannot be protected")
	}
	if len(key) > 0 && !keyed && !cfg.AllowGuest {
		return &connError{ErrSecurity, ErrGuest}
	}
	if keyed && !auth.Done() {
		return securityError("the server ended the authentication early")
	}
	if !keyed {
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
	isSigned := proto.Flags(le.Uint32(cl.Message()[proto.OffsetFlags:]))&proto.FlagSigned != 0
	if !isSigned && (sec.signAll || a.Dialect >= proto.Dialect311) {
		return securityError("unsigned end of SESSION_SETUP")
	}
	return cl.verify()
}
