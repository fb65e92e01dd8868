package smb

import (
	"context"
	"fmt"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// maxLegs bounds the messages of one authentication; no mechanism needs more than four.
const maxLegs = 16

// login sets a session up (3.2.4.2.3, 3.2.5.3): tokens go to and fro until both
// sides are content, and the session's keys are derived.
func (c *conn) login(ctx context.Context, host string, previous uint64) error {
	mech, err := c.cfg.Initiator.Start(ctx, host)
	if err != nil {
		return fmt.Errorf("smb: authentication: %w", err)
	}
	auth := spnego.New(mech)
	preauth := c.agreed.preauth
	token, err := auth.Step(ctx, c.agreed.token)
	if err != nil {
		return fmt.Errorf("smb: authentication: %w", err)
	}
	var session uint64
	for range maxLegs {
		cl := c.newCall(proto.CommandSessionSetup, 0)
		cl.session, cl.preauth = session, &preauth
		req := proto.SessionSetupRequest{
			SecurityMode: c.agreed.offer.SecurityMode,
			Capabilities: c.agreed.offer.Capabilities & proto.CapDFS,
			Token:        token,

			PreviousSessionID: previous,
		}
		if err := c.roundTrip(ctx, cl, &req, inClear, proto.StatusMoreProcessingRequired); err != nil {
			return err
		}
		more := cl.status == proto.StatusMoreProcessingRequired
		if more {
			preauth.Update(cl.message())
		}
		r, err := proto.DecodeSessionSetupResponse(cl.message())
		if err != nil {
			err = lost(err)
		} else {
			session = le.Uint64(cl.message()[proto.OffsetSessionID:])
			token, err = auth.Step(ctx, r.Token)
			if !more && len(r.Token) == 0 && auth.Done() {
				err = nil
			}
		}
		if err == nil && !more {
			err = c.secure(cl, &r, auth, session, &preauth)
			cl.release()
			return err
		}
		cl.release()
		if err != nil {
			return fmt.Errorf("smb: authentication: %w", err)
		}
	}
	return protocolError("authentication without an end")
}

// secure derives the keys of a session the server has accepted, and verifies the
// reply that said so.
func (c *conn) secure(cl *call, r *proto.SessionSetupResponse, auth *spnego.Client, session uint64, preauth *crypt.Preauth) error {
	cfg, a := c.cfg, &c.agreed
	sec := &security{
		sessionID: session,
		guest:     r.Flags&proto.SessionGuest != 0,
		anonymous: r.Flags&proto.SessionNull != 0,
	}
	key := auth.SessionKey()
	if len(key) > 0 && (sec.guest || sec.anonymous) && !cfg.AllowGuest {
		return securityError("the server let the user in as a guest, without checking the password; Dialer.AllowGuest accepts that")
	}
	keyed := len(key) > 0 && !sec.guest && !sec.anonymous
	if keyed && !auth.Done() {
		return securityError("the server ended the authentication early")
	}
	if !keyed {
		sec.anonymous = !sec.guest // some servers do not say so
		if cfg.RequireSigning || cfg.RequireEncryption {
			return securityError("the server let the user in as a guest, whose session cannot be protected")
		}
		c.sec.Store(sec)
		return nil
	}
	keys := crypt.DeriveKeys(a.dialect, a.cipher, key, preauth)
	var err error
	if sec.signer, err = crypt.NewSigner(a.signing, keys.Signing); err != nil {
		return err
	}
	if a.cipher != proto.CipherNone {
		if sec.sealer, err = crypt.NewSealer(a.cipher, keys.Encrypt); err != nil {
			return err
		}
		if sec.opener, err = crypt.NewOpener(a.cipher, keys.Decrypt); err != nil {
			return err
		}
	}
	sec.signAll = cfg.RequireSigning || a.mode&proto.SigningRequired != 0
	sec.encryptAll = cfg.RequireEncryption || r.Flags&proto.SessionEncrypt != 0
	if sec.encryptAll && sec.sealer == nil {
		return securityError("the session must be encrypted, and there is no cipher in common")
	}
	c.sec.Store(sec)
	isSigned := proto.Flags(le.Uint32(cl.message()[proto.OffsetFlags:]))&proto.FlagSigned != 0
	if !isSigned && (sec.signAll || a.dialect >= proto.Dialect311) {
		return securityError("unsigned end of SESSION_SETUP")
	}
	return cl.verify()
}

// logoff ends the session on the server, so that it does not linger there.
func (c *conn) logoff(ctx context.Context) error {
	cl := c.newCall(proto.CommandLogoff, 0)
	if err := c.roundTrip(ctx, cl, simple{}, inClear); err != nil {
		return err
	}
	cl.release()
	return nil
}

// echo asks for a sign of life.
func (c *conn) echo(ctx context.Context) error {
	cl := c.newCall(proto.CommandEcho, 0)
	if err := c.roundTrip(ctx, cl, simple{}, inClear); err != nil {
		return err
	}
	cl.release()
	return nil
}
