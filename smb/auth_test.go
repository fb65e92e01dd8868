package smb_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/ntlm"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestLogin logs in with each kind of credentials, valid and invalid.
func TestLogin(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{
		Global: []string{"map to guest = bad user"},
		Shares: []string{"[public]\n  path = %DIR%\n  guest ok = yes\n  read only = yes"},
	})
	for name, n := range map[string]smb.NTLM{
		"password":     {User: srv.User, Password: srv.Password},
		"hash":         {User: srv.User, Hash: ntlm.NTHash(srv.Password)},
		"domain":       {User: srv.User, Password: srv.Password, Domain: "WORKGROUP", Workstation: "here"},
		"upper case":   {User: strings.ToUpper(srv.User), Password: srv.Password},
		"unknown user": {User: "nobody-of-this-name", Password: "x"},
		"anonymous":    {},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "unknown user" {
				d := smb.Dialer{Initiator: n, Pool: newPool(t), DialFunc: dialer(t)}
				if _, err := d.Dial(t.Context(), srv.Addr); !errors.Is(err, smb.ErrSecurity) || !errors.Is(err, smb.ErrGuest) {
					t.Errorf("accepted as a guest: %v", err)
				}
				for _, d := range []smb.Dialer{{RequireSigning: true}, {RequireEncryption: true}} {
					d.Initiator, d.Pool, d.AllowGuest, d.DialFunc = n, newPool(t), true, dialer(t)
					if _, err := d.Dial(t.Context(), srv.Addr); !errors.Is(err, smb.ErrSecurity) || errors.Is(err, smb.ErrGuest) {
						t.Errorf("a guest where protection is required: %v", err)
					}
				}
			}
			sess := dial(t, srv, smb.Dialer{Initiator: n, AllowGuest: name == "unknown user"})
			i := sess.Info()
			if want := name == "unknown user"; i.Guest != want {
				t.Errorf("guest: %v", i.Guest)
			}
			if want := name == "anonymous"; i.Anonymous != want && i.Guest != want {
				t.Errorf("anonymous: %v", i.Anonymous)
			}
			share, err := sess.Mount(t.Context(), "public")
			must(t, err)
			if _, err := share.ReadDir("."); err != nil {
				t.Error(err)
			}
			must(t, sess.Logoff(t.Context()))
			if _, err := share.ReadDir("."); !errors.Is(err, smb.ErrClosed) {
				t.Error(err)
			}
		})
	}
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: "wrong"}, Pool: newPool(t), DialFunc: dialer(t)}
	if _, err := d.Dial(t.Context(), srv.Addr); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	d.Initiator = smb.NTLM{User: "nobody-of-this-name"}
	d.RequireSigning = true
	if _, err := d.Dial(t.Context(), srv.Addr); !errors.Is(err, smb.ErrSecurity) {
		t.Error("guest where signing is required:", err)
	}
	if _, err := (&smb.Dialer{}).Dial(t.Context(), srv.Addr); err == nil {
		t.Error("Dial without an Initiator succeeded")
	}
}

// TestRequired requires signing and encryption from a server that does not require them itself.
func TestRequired(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Shares: []string{"[secret]\n  path = %DIR%\n  read only = no\n  smb encrypt = required"}})
	for name, d := range map[string]smb.Dialer{
		"signing": {RequireSigning: true}, "encryption": {RequireEncryption: true},
	} {
		t.Run(name, func(t *testing.T) {
			share := mount(t, srv, d)
			if i := share.Session().Info(); i.Signing != d.RequireSigning || i.Encrypted != d.RequireEncryption {
				t.Errorf("%+v", i)
			}
			suiteData(t, srv, share)
			suiteErrors(t, srv, share)
		})
	}
	t.Run("share", func(t *testing.T) { // the share is encrypted, the session is not
		sess := dial(t, srv, smb.Dialer{})
		share, err := sess.Mount(t.Context(), "secret")
		must(t, err)
		suiteData(t, srv, share)
		suiteDirs(t, srv, share)
	})
}

// TestExpired uses a server that lets sessions expire.
func TestExpired(t *testing.T) {
	for cmd, use := range map[proto.Command]func(f *smb.File) error{
		proto.CommandCreate: func(f *smb.File) error { _, err := f.Share().Stat("file"); return err },
		proto.CommandClose:  (*smb.File).Close,
	} {
		expire := false
		s := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
			if expire && m.Command == cmd {
				expire = false
				c.Refuse(m, proto.StatusNetworkSessionExpired)
				return true
			}
			return false
		}}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		expire = true
		if err := use(f); err != nil {
			t.Errorf("%v: %v", cmd, err)
		}
	}
}

// TestTimeouts connects to a server that never answers a READ: the call ends in its time limit, and the connection stays in use.
func TestTimeouts(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	eachKind(t, func(t *testing.T, s *script.Server) {
		synctest.Test(t, func(t *testing.T) { testTimeouts(t, s) })
	})
}

func testTimeouts(t *testing.T, s *script.Server) {
	const limit = 250 * time.Millisecond
	s.Hook = func(c *script.Conn, m *script.Message) bool { return m.Command == proto.CommandRead }
	f, err := scripted(t, s, smb.Dialer{Limits: smb.Limits{OperationTimeout: limit}})
	must(t, err)
	var timeout interface{ Timeout() bool }
	begun := time.Now()
	_, err = f.ReadAt(make([]byte, 10), 0)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begun) != limit {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	if n, err := f.WriteAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Error("the connection ended:", n, err)
	}
}
