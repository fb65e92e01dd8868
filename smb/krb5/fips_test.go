package krb5

import (
	"crypto/fips140"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/kdc"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// TestUnderFIPS: in a program that enforces FIPS 140-3 a keytab logs in, by the encryption types of RFC 8009, and reads a signed file. A ticket
// whose type is not approved is an error, not a panic of crypto/hmac.
func TestUnderFIPS(t *testing.T) {
	if !fips140.Enforced() {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		again := exec.Command(exe, "-test.run=^TestUnderFIPS$", "-test.v")
		again.Env = append(os.Environ(), "GODEBUG=fips140=only")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	k := kdc.Start(t)
	keytab := k.AddKeytab(t, "cifs/127.0.0.1")
	kerberos := []string{
		"realm = " + kdc.Realm,
		"kerberos method = dedicated keytab",
		"dedicated keytab file = " + keytab,
	}
	srv := rigtest.Start(t, rig.Config{Mode: rig.Signed, Global: kerberos})
	t.Setenv("KRB5_CONFIG", k.KRB5Conf)
	dial := func(srv *rig.Server, cfg Config) error {
		i, err := New(cfg)
		if err != nil {
			return err
		}
		defer i.Close()
		d := smb.Dialer{Initiator: i, Pool: tarntest.NewPool(t)}
		s, err := d.Dial(t.Context(), srv.Addr)
		if err != nil {
			return err
		}
		defer s.Close()
		share, err := s.Mount(t.Context(), srv.Share)
		if err != nil {
			return err
		}
		if err := share.WriteFile("under-fips", []byte("hello"), 0o666); err != nil {
			return err
		}
		if b, err := share.ReadFile("under-fips"); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		return s.Logoff(t.Context())
	}
	k.AddUser(t, "old")
	if err := dial(srv, Config{CCache: k.CCache(t, "old")}); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ErrTicket) {
		t.Errorf("a ticket with HMAC-SHA1: %v", err)
	}
	user := Config{User: srv.User, Realm: kdc.Realm, Keytab: k.AddKeytab(t, srv.User)}
	if err := dial(srv, user); err != nil {
		t.Errorf("a keytab: %v", err)
	}
	if err := dial(rigtest.Start(t, rig.Config{Mode: rig.Encrypted, Global: kerberos}), user); !errors.Is(err, smb.ErrSecurity) {
		t.Errorf("a server that requires encryption: %v", err)
	}
}
