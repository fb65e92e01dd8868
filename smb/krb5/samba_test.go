package krb5

import (
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/kdc"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// TestSamba logs in to a standalone Samba server, which decrypts tickets with a keytab. (It refuses tickets
// with a PAC, so the KDC issues none.) AES-256 uses more of the session key than everything else.
func TestSamba(t *testing.T) {
	k := kdc.Start(t)
	keytab := k.AddKeytab(t, "cifs/127.0.0.1")
	t.Setenv("KRB5_CONFIG", k.KRB5Conf)
	kerberos := []string{
		"realm = " + kdc.Realm,
		"kerberos method = dedicated keytab",
		"dedicated keytab file = " + keytab,
	}
	known := false
	for name, cfg := range map[string]rig.Config{
		"plain":     {Mode: rig.Plain, Global: kerberos},
		"signed":    {Mode: rig.Signed, Global: kerberos},
		"3.0":       {Mode: rig.Encrypted, Global: append([]string{"server max protocol = SMB3_00"}, kerberos...)},
		"encrypted": {Mode: rig.Encrypted, Global: kerberos},
		"AES-256":   {Mode: rig.Encrypted, Global: append([]string{"server smb3 encryption algorithms = AES-256-GCM"}, kerberos...)},
	} {
		t.Run(name, func(t *testing.T) {
			srv := rigtest.Start(t, cfg)
			if !known {
				k.AddUser(t, srv.User)
				known = true
			}
			i, err := New(Config{User: srv.User, Realm: kdc.Realm, Password: kdc.Password, ConfigFile: k.KRB5Conf})
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			d := smb.Dialer{Initiator: i, Pool: tarntest.NewPool(t), AllowUnsigned: true}
			s, err := d.Dial(t.Context(), srv.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			share, err := s.Mount(t.Context(), srv.Share)
			if err != nil {
				t.Fatal(err)
			}
			if err := share.WriteFile("by-kerberos", []byte("hello"), 0o666); err != nil {
				t.Fatal(err)
			}
			if b, err := share.ReadFile("by-kerberos"); err != nil || string(b) != "hello" {
				t.Errorf("%q, %v", b, err)
			}
			if err := s.Logoff(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
