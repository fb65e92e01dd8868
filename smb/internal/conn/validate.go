package conn

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// validate proves that NEGOTIATE was not changed by an attacker on the path. It is for dialects below 3.1.1,
// which has a hash for this: the request is repeated with a signature, and the server repeats its answer,
// signed too (MS-SMB2 3.2.5.5). It is done once a connection.
func (t *Tree) validate(ctx context.Context) error {
	c, a, sec := t.c, &t.c.agreed, t.c.sec.Load()
	offered := a.offer.Dialects
	if a.Dialect >= proto.Dialect311 || offered[len(offered)-1] < proto.Dialect300 || sec.signer == nil || c.validated.Load() {
		return nil
	}
	v := proto.ValidateNegotiate{
		Capabilities: a.offer.Capabilities, GUID: a.offer.ClientGUID,
		SecurityMode: a.offer.SecurityMode, Dialects: offered,
	}
	cl := t.Call(proto.CommandIoctl)
	cl.force, cl.Expect = true, 24
	req := proto.IoctlRequest{Code: proto.FsctlValidateNegotiate, FileID: proto.NoFileID(), Input: v.Append(nil), Output: 24}
	err := t.RoundTrip(ctx, cl, &req,
		// Servers that do not know the code answer with a signed error, which an attacker cannot forge
		// (3.2.5.5).
		proto.StatusNotSupported, proto.StatusInvalidDeviceRequest, proto.StatusFileClosed)
	if err != nil {
		return err
	}
	defer cl.Release()
	if cl.Status != proto.StatusSuccess {
		if a.Dialect >= proto.Dialect300 {
			return t.tampered("it does not support VALIDATE_NEGOTIATE_INFO")
		}
		c.validated.Store(true)
		return nil
	}
	r, err := proto.DecodeIoctlResponse(cl.Message())
	if err != nil {
		return t.Malformed(err)
	}
	got, err := proto.DecodeValidatedNegotiate(r.Output)
	if err != nil {
		return t.Malformed(err)
	}
	if got.Dialect != a.Dialect || got.GUID != a.ServerGUID || got.SecurityMode != a.mode || got.Capabilities != a.serverCaps {
		return t.tampered("NEGOTIATE was changed on the path")
	}
	c.validated.Store(true)
	return nil
}

func (t *Tree) tampered(text string) error {
	err := securityError(text)
	t.c.fail(err)
	return err
}
