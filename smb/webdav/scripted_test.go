package webdav_test

import (
	"context"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

type scriptedLogin struct{}

func (scriptedLogin) Start(context.Context, string) (smb.SecurityContext, error) {
	return script.Start(), nil
}

// scriptedModes are scripted servers by what protects their sessions.
func scriptedModes() map[string]script.Server {
	return map[string]script.Server{"plain": {}, "signed": {Signed: true}, "encrypted": {Sealed: true, Cipher: proto.CipherAES128GCM}}
}

// scriptedShare mounts a share of s until the test's end.
func scriptedShare(t *testing.T, s *script.Server) (*smb.Session, *smb.Share) {
	t.Helper()
	d := smb.Dialer{Initiator: scriptedLogin{}, DialFunc: s.Dial, Pool: tarntest.NewPool(t)}
	session, err := d.Dial(t.Context(), "scripted")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	share, err := session.Mount(t.Context(), "share")
	if err != nil {
		t.Fatal(err)
	}
	return session, share
}
