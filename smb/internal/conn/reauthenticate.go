package conn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// ErrReauthenticated is returned by Call.Finish, Read, ReadBuffer and Written when the server refused the
// request because the session had expired and the user has been authenticated again since: the request had no
// effect and may be sent again. It is of class ErrLost.
var ErrReauthenticated error = &connError{ErrLost, errors.New("the session had expired and was authenticated again")}

// maxExpirations is how often one request may find the session expired.
const maxExpirations = 2

// reauthentication is the state of a new authentication on the session after the ticket or the time that the
// server allowed has expired (MS-SMB2 3.2.5.1.6).
type reauthentication struct {
	epoch atomic.Uint64 // counts the authentications that succeeded

	mu      sync.Mutex
	running chan struct{} // closed when the running one ends; nil: none
}

// expired reports whether the reply in cl refuses the request because the session has expired.
func (cl *Call) expired() bool {
	return cl.Status == proto.StatusNetworkSessionExpired && cl.cmd != proto.CommandSessionSetup
}

// renew authenticates the user again after cl was refused because the session had expired, unless that has
// been done since cl was sent. If that fails, the connection ends and the next one begins with a new session.
// cl remains the caller's.
func (cl *Call) renew(ctx context.Context) error {
	if cl.expirations++; cl.expirations > maxExpirations {
		return cl.refuseSession()
	}
	return cl.awaitRenewal(ctx)
}

// awaitRenewal is renew for an expiration that has been counted.
func (cl *Call) awaitRenewal(ctx context.Context) error {
	c, r := cl.c, &cl.c.reauth
	r.mu.Lock()
	if r.epoch.Load() != cl.epoch {
		r.mu.Unlock()
		return nil
	}
	done := r.running
	if done == nil {
		done = make(chan struct{})
		r.running = done
		// In its own goroutine: other calls wait for it even when the context of cl ends.
		c.work.run(func() {
			ctx, cancel := context.WithTimeout(context.Background(), c.cfg.LoginTimeout)
			defer cancel()
			err := c.authenticate(ctx, 0, new(crypt.Preauth), c.sameSession)
			r.mu.Lock()
			r.running = nil
			if err == nil {
				r.epoch.Add(1)
			}
			r.mu.Unlock()
			switch {
			case errors.Is(err, ErrSecurity):
				c.fail(err)
			case err != nil:
				c.fail(&connError{ErrLost, err})
			}
			close(done)
		})
	}
	r.mu.Unlock()
	select {
	case <-done:
		return c.Err()
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

// sameSession checks the reply that accepts a new authentication on the existing session, whose keys stay the
// same (3.2.5.3.3): they have verified the reply already.
func (c *Conn) sameSession(_ *Call, r *proto.SessionSetupResponse, auth *spnego.Client, session uint64, _ *crypt.Preauth) error {
	sec := c.sec.Load()
	if session != sec.sessionID {
		return ProtocolError("it authenticated another session")
	}
	if sec.signer != nil && (r.Flags&(proto.SessionGuest|proto.SessionNull) != 0 || len(auth.SessionKey()) == 0) {
		return securityError("the server accepted the user without checking the password")
	}
	return nil
}

// refuseSession ends the connection because the server reports the session as not valid.
func (cl *Call) refuseSession() error {
	err := &connError{ErrLost, cl.c.refused(cl)}
	cl.c.fail(err)
	return err
}

// rewind prepares a call that is done to be sent again.
func (cl *Call) rewind() {
	cl.buf.Free()
	cl.reply = reply{}
	cl.state, cl.acknowledged, cl.async = callIdle, false, 0
}
