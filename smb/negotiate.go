package smb

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// agreement is what NEGOTIATE settled (MS-SMB2 3.2.5.2).
type agreement struct {
	offer       proto.NegotiateRequest
	dialect     proto.Dialect
	mode        proto.SecurityMode // the server's
	caps        proto.Capabilities // the server's that count
	serverCaps  proto.Capabilities // the server's as it sent them
	serverGUID  [16]byte
	maxRead     int
	maxWrite    int
	maxTransact int
	cipher      proto.Cipher
	signing     proto.SigningAlgorithm
	token       []byte // the server's first SPNEGO token
	preauth     crypt.Preauth
}

// offer is the NEGOTIATE request of a Dialer.
func (c *conn) offer(host string) (proto.NegotiateRequest, error) {
	cfg := c.cfg
	r := proto.NegotiateRequest{
		SecurityMode: proto.SigningEnabled,
		Salt:         make([]byte, 32),
		NetName:      host,
		ClientGUID:   c.guid,
	}
	if cfg.RequireSigning {
		r.SecurityMode |= proto.SigningRequired
	}
	for _, d := range dialects() {
		if d >= cfg.MinDialect && d <= cfg.MaxDialect {
			r.Dialects = append(r.Dialects, proto.Dialect(d))
		}
	}
	if cfg.MaxDialect >= SMB210 {
		r.Capabilities |= proto.CapLargeMTU | proto.CapLeasing | proto.CapDFS
	}
	if cfg.MaxDialect >= SMB300 {
		r.Capabilities |= proto.CapEncryption
	}
	for _, x := range cfg.Ciphers {
		r.Ciphers = append(r.Ciphers, proto.Cipher(x))
	}
	for _, x := range cfg.Signers {
		r.SigningAlgorithms = append(r.SigningAlgorithms, proto.SigningAlgorithm(x))
	}
	_, err := rand.Read(r.Salt)
	return r, err
}

// negotiate agrees on a dialect and what goes with it.
func (c *conn) negotiate(ctx context.Context, host string) error {
	req, err := c.offer(host)
	if err != nil {
		return err
	}
	a := agreement{offer: req}
	cl := c.newCall(proto.CommandNegotiate, 0)
	cl.preauth = &a.preauth
	if err := c.roundTrip(ctx, cl, &req, inClear); err != nil {
		return err
	}
	defer cl.release()
	a.preauth.Update(cl.message())
	r, err := proto.DecodeNegotiateResponse(cl.message())
	if err != nil {
		return lost(err)
	}
	if !slices.Contains(req.Dialects, r.Dialect) {
		return protocolError("it chose a dialect that was not offered")
	}
	l := &c.cfg.Limits
	a.dialect, a.mode, a.caps, a.serverGUID = r.Dialect, r.SecurityMode, r.Capabilities, r.ServerGUID
	a.serverCaps = a.caps
	a.maxRead = bounded(r.MaxRead, l.MaxRead)
	a.maxWrite = bounded(r.MaxWrite, l.MaxWrite)
	a.maxTransact = bounded(r.MaxTransact, l.MaxTransact)
	a.token = slices.Clone(r.SecurityToken)
	if a.dialect < proto.Dialect210 || a.caps&proto.CapLargeMTU == 0 {
		// Without multi-credit requests, one moves at most 64 KiB (3.3.5.2.3).
		a.caps &^= proto.CapLargeMTU
		a.maxRead, a.maxWrite = min(a.maxRead, 65536), min(a.maxWrite, 65536)
		a.maxTransact = min(a.maxTransact, 65536)
	}
	if a.maxRead == 0 || a.maxWrite == 0 || a.maxTransact == 0 {
		return protocolError("it allows no bytes in a request")
	}
	if err := a.algorithms(&r); err != nil {
		return err
	}
	if c.cfg.RequireEncryption && a.cipher == proto.CipherNone {
		return securityError("encryption is required, and the server has no cipher in common")
	}
	c.agreed = a
	return nil
}

func bounded(theirs uint32, ours int) int { return int(min(int64(theirs), int64(ours))) }

// algorithms settles how to sign and encrypt.
func (a *agreement) algorithms(r *proto.NegotiateResponse) error {
	switch {
	case a.dialect < proto.Dialect300:
		a.signing = proto.SigningHMACSHA256
	case a.dialect < proto.Dialect311:
		a.signing = proto.SigningAESCMAC
		if a.caps&proto.CapEncryption != 0 && slices.Contains(a.offer.Ciphers, proto.CipherAES128CCM) {
			a.cipher = proto.CipherAES128CCM
		}
	default:
		x := &r.Contexts
		if !x.HasPreauth || x.PreauthHash != proto.HashSHA512 {
			return protocolError("it chose no preauthentication hash")
		}
		if x.Cipher != proto.CipherNone && !slices.Contains(a.offer.Ciphers, x.Cipher) {
			return protocolError("it chose a cipher that was not offered")
		}
		a.cipher = x.Cipher
		a.signing = proto.SigningAESCMAC
		if x.HasSigning {
			if !slices.Contains(a.offer.SigningAlgorithms, x.Signing) {
				return protocolError("it chose a signing algorithm that was not offered")
			}
			a.signing = x.Signing
		}
	}
	return nil
}
