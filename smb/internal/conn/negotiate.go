package conn

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// agreement is the result of NEGOTIATE (MS-SMB2 3.2.5.2).
type agreement struct {
	Terms
	offer      proto.NegotiateRequest
	mode       proto.SecurityMode // the server's
	serverCaps proto.Capabilities // the server's as it sent them
	// serverTransact is the server's own limit for the reply to a QUERY_INFO, in bytes; MaxTransact includes
	// the client's limit.
	serverTransact int
	token          []byte // the server's first SPNEGO token
	preauth        crypt.Preauth
}

// offer is the NEGOTIATE request.
func (c *Conn) offer() (proto.NegotiateRequest, error) {
	cfg := c.cfg
	r := proto.NegotiateRequest{
		SecurityMode:      proto.SigningEnabled,
		Salt:              make([]byte, 32),
		NetName:           cfg.Host,
		ClientGUID:        cfg.ClientGUID,
		Dialects:          cfg.Dialects,
		Ciphers:           cfg.Ciphers,
		SigningAlgorithms: cfg.Signers,
		POSIX:             cfg.POSIX,
	}
	if cfg.SignAll {
		r.SecurityMode |= proto.SigningRequired
	}
	newest := slices.Max(cfg.Dialects)
	if newest >= proto.Dialect210 {
		r.Capabilities |= proto.CapLargeMTU | proto.CapLeasing | proto.CapDFS
	}
	if newest >= proto.Dialect300 {
		r.Capabilities |= proto.CapEncryption
	}
	_, err := rand.Read(r.Salt)
	return r, err
}

// negotiate agrees on a dialect and its parameters.
func (c *Conn) negotiate(ctx context.Context) error {
	req, err := c.offer()
	if err != nil {
		return err
	}
	a := agreement{offer: req}
	cl := c.newCall(proto.CommandNegotiate, 0)
	cl.preauth = &a.preauth
	if err := c.roundTrip(ctx, cl, &req, inClear); err != nil {
		return err
	}
	defer cl.Release()
	a.preauth.Update(cl.Message())
	r, err := proto.DecodeNegotiateResponse(cl.Message())
	if err != nil {
		return classified(err)
	}
	if !slices.Contains(req.Dialects, r.Dialect) {
		return ProtocolError("it chose a dialect that was not offered")
	}
	a.Dialect, a.mode, a.Capabilities, a.ServerGUID = r.Dialect, r.SecurityMode, r.Capabilities, r.ServerGUID
	a.serverCaps = a.Capabilities
	a.MaxRead = bounded(r.MaxRead, c.cfg.MaxRead)
	a.MaxWrite = bounded(r.MaxWrite, c.cfg.MaxWrite)
	a.MaxTransact = bounded(r.MaxTransact, c.cfg.MaxTransact)
	a.serverTransact = bounded(r.MaxTransact, 1<<30)
	a.token = slices.Clone(r.SecurityToken)
	if a.Dialect < proto.Dialect210 || a.Capabilities&proto.CapLargeMTU == 0 {
		// Without multi-credit requests, one moves at most 64 KiB (3.3.5.2.3).
		a.Capabilities &^= proto.CapLargeMTU
		a.MaxRead, a.MaxWrite = min(a.MaxRead, 65536), min(a.MaxWrite, 65536)
		a.MaxTransact, a.serverTransact = min(a.MaxTransact, 65536), min(a.serverTransact, 65536)
	}
	if a.MaxRead == 0 || a.MaxWrite == 0 || a.MaxTransact == 0 {
		return ProtocolError("it allows no bytes in a request")
	}
	if err := a.algorithms(&r); err != nil {
		return err
	}
	if c.cfg.RequireEncryption && a.Cipher == proto.CipherNone {
		return securityError("encryption is required, and the server has no cipher in common")
	}
	c.agreed = a
	return nil
}

func bounded(theirs uint32, ours int) int { return int(min(int64(theirs), int64(ours))) }

// algorithms sets the algorithms for signing and encryption.
func (a *agreement) algorithms(r *proto.NegotiateResponse) error {
	switch {
	case a.Dialect < proto.Dialect300:
		a.Signing = proto.SigningHMACSHA256
	case a.Dialect < proto.Dialect311:
		a.Signing = proto.SigningAESCMAC
		if a.Capabilities&proto.CapEncryption != 0 && slices.Contains(a.offer.Ciphers, proto.CipherAES128CCM) {
			a.Cipher = proto.CipherAES128CCM
		}
	default:
		x := &r.Contexts
		if !x.HasPreauth || x.PreauthHash != proto.HashSHA512 {
			return ProtocolError("it chose no preauthentication hash")
		}
		if x.Cipher != proto.CipherNone && !slices.Contains(a.offer.Ciphers, x.Cipher) {
			return ProtocolError("it chose a cipher that was not offered")
		}
		a.Cipher = x.Cipher
		a.Signing = proto.SigningAESCMAC
		if x.HasSigning {
			if !slices.Contains(a.offer.SigningAlgorithms, x.Signing) {
				return ProtocolError("it chose a signing algorithm that was not offered")
			}
			a.Signing = x.Signing
		}
		a.POSIX = a.offer.POSIX && x.POSIX
	}
	return nil
}
