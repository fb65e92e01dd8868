package smb_test

import (
	"testing"

	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestSignedByDefault dials servers that require no signatures. Every request behind the login is signed, and none is with
// AllowUnsigned, except those that prove the negotiation.
func TestSignedByDefault(t *testing.T) {
	for _, dialect := range []proto.Dialect{proto.Dialect202, proto.Dialect210, proto.Dialect300, proto.Dialect311} {
		for name, c := range map[string]struct {
			d      smb.Dialer
			signed bool
		}{
			"default":        {smb.Dialer{}, true},
			"RequireSigning": {smb.Dialer{RequireSigning: true}, true},
			"AllowUnsigned":  {smb.Dialer{AllowUnsigned: true}, false},
		} {
			t.Run(dialect.String()+"/"+name, func(t *testing.T) {
				unsigned := 0
				s := &script.Server{Dialect: dialect, MaxIO: 65536, Account: &script.Account{User: "user", Password: "password"}}
				s.Hook = func(_ *script.Conn, m *script.Message) bool {
					if m.Command > proto.CommandSessionSetup && m.Flags&proto.FlagSigned == 0 {
						unsigned++
					}
					return false
				}
				c.d.Initiator, c.d.Pool, c.d.DialFunc = smb.NTLM{User: "user", Password: "password"}, newPool(t), through(t, s.Dial)
				sess, err := c.d.Dial(t.Context(), "scripted")
				must(t, err)
				defer sess.Close()
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				must(t, share.WriteFile("file", []byte("data"), 0o666))
				if got := sess.Info().Signing; got != c.signed {
					t.Errorf("Info.Signing %t, want %t", got, c.signed)
				}
				if c.signed != (unsigned == 0) {
					t.Errorf("%d unsigned requests", unsigned)
				}
			})
		}
	}
	if _, err := (&smb.Dialer{Initiator: smb.NTLM{}, RequireSigning: true, AllowUnsigned: true}).Dial(t.Context(), "scripted"); err == nil {
		t.Error("Dial with RequireSigning and AllowUnsigned succeeded")
	}
}

// TestSignedAsGoSMB2: the facade signs as go-smb2 does, where the server or the program requires it.
func TestSignedAsGoSMB2(t *testing.T) {
	for _, require := range []bool{false, true} {
		s := &script.Server{Account: &script.Account{User: "user", Password: "password"}}
		d := smb2.Dialer{
			Initiator:  &smb2.NTLMInitiator{User: "user", Password: "password"},
			Negotiator: smb2.Negotiator{RequireMessageSigning: require},
			SMB:        smb.Dialer{Pool: newPool(t), DialFunc: through(t, s.Dial)},
		}
		sess, err := d.Dial(t.Context(), "scripted:445")
		must(t, err)
		if got := sess.SMB().Info().Signing; got != require {
			t.Errorf("RequireMessageSigning %t: signed %t", require, got)
		}
		must(t, sess.Logoff())
	}
}
