package smb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/smb/internal/logintest"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestLoginProved has a server deviate from a correct login by NTLM.
func TestLoginProved(t *testing.T) {
	account := &script.Account{User: "user", Password: "password"}
	logintest.Run(t, logintest.Login{
		Initiator:    smb.NTLM{User: "user", Password: "password"},
		NewMechanism: account.NewLogin, Steps: 2,
	})
}

// TestLoginGuest has a server log a user with credentials in as a guest, or as the anonymous user. That takes AllowGuest, a complete
// login, and that the session was not protected before.
func TestLoginGuest(t *testing.T) {
	for _, flags := range []proto.SessionFlags{proto.SessionGuest, proto.SessionNull, proto.SessionGuest | proto.SessionNull} {
		for name, c := range map[string]struct {
			allow    bool
			step     int
			then, as error // of Dial and of WriteFile after the connection was lost, when the server changes its mind
		}{
			"refused": {false, 1, smb.ErrGuest, smb.ErrGuest},
			"allowed": {true, 1, nil, smb.ErrSecurity},
			"early":   {true, 0, smb.ErrSecurity, smb.ErrSecurity},
		} {
			t.Run(fmt.Sprintf("%s/%#x", name, flags), func(t *testing.T) {
				var guests atomic.Bool
				s := &script.Server{Account: &script.Account{User: "user", Password: "password"}}
				s.Answer = func(_ *script.Conn, step int, a *script.Answer) {
					if guests.Load() && step == c.step {
						a.Status, a.Flags, a.Key, a.Security = proto.StatusSuccess, flags, nil, script.InClear
					}
				}
				var last net.Conn
				d := smb.Dialer{Initiator: smb.NTLM{User: "user", Password: "password"}, Pool: newPool(t), AllowGuest: c.allow,
					DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
						nc, err := s.Dial(ctx, n, a)
						last = nc
						return nc, err
					}}
				sess, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer sess.Close()
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				guests.Store(true)
				last.Close()
				if err := share.WriteFile("file", nil, 0o666); !errors.Is(err, c.as) || !errors.Is(err, smb.ErrSecurity) {
					t.Errorf("WriteFile after a loss: %v, want %v", err, c.as)
				}
				other, err := d.Dial(t.Context(), "scripted")
				if !errors.Is(err, c.then) {
					t.Errorf("Dial: %v, want %v", err, c.then)
				}
				if err != nil {
					return
				}
				defer other.Close()
				share, err = other.Mount(t.Context(), "share")
				must(t, err)
				last.Close() // a guest's session goes on as one
				must(t, share.WriteFile("file", nil, 0o666))
				if i := other.Info(); !i.Guest && !i.Anonymous || i.Signing {
					t.Errorf("%+v", i)
				}
			})
		}
	}
}

// TestLoginLastBits changes each bit of the answer that accepts the user.
func TestLoginLastBits(t *testing.T) {
	for _, dialect := range []proto.Dialect{proto.Dialect210, proto.Dialect311} {
		t.Run(dialect.String(), func(t *testing.T) {
			pool := newPool(t)
			bits := 1
			for bit := 0; bit < bits; bit++ {
				s := &script.Server{Dialect: dialect, MaxIO: 65536, Account: &script.Account{User: "user", Password: "password"}}
				s.Mangle = func(frame []byte) []byte {
					msg := frame[4:]
					if le.Uint16(msg[12:]) == uint16(proto.CommandSessionSetup) && le.Uint32(msg[8:]) == 0 {
						bits = 8 * len(msg)
						msg[bit/8] ^= 1 << (bit % 8)
					}
					return frame
				}
				d := smb.Dialer{
					Initiator: smb.NTLM{User: "user", Password: "password"}, Pool: pool, DialFunc: s.Dial, AllowUnsigned: true,
					Limits: smb.Limits{DialTimeout: 100 * time.Millisecond},
				}
				if sess, err := d.Dial(t.Context(), "scripted"); err == nil {
					sess.Close()
					t.Errorf("accepted with bit %d of byte %d changed", bit%8, bit/8)
				}
			}
		})
	}
}

// TestLoginGoSMB2 has a server that does not know the password accept the user.
func TestLoginGoSMB2(t *testing.T) {
	for _, dialect := range []proto.Dialect{proto.Dialect210, proto.Dialect311} {
		for step := range 2 {
			s := &script.Server{Dialect: dialect, MaxIO: 65536, Account: &script.Account{User: "somebody else", Password: "unknown"}}
			s.Answer = func(_ *script.Conn, n int, a *script.Answer) {
				if n == step {
					a.Status, a.State = proto.StatusSuccess, script.AcceptCompleted
				}
			}
			d := smb2.Dialer{
				Initiator: &smb2.NTLMInitiator{User: "user", Password: "password"}, Negotiator: smb2.Negotiator{SpecifiedDialect: uint16(dialect)},
				SMB: smb.Dialer{Pool: newPool(t), DialFunc: s.Dial},
			}
			if sess, err := d.Dial(t.Context(), "scripted:445"); !errors.Is(err, smb.ErrSecurity) {
				t.Errorf("%v, step %d: %v", dialect, step, err)
				if err == nil {
					sess.Logoff()
				}
			}
		}
	}
}
