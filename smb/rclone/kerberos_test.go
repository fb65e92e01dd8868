package rclone

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/addc"
	"github.com/tarn-go/tarn/internal/rig/kdc"
)

// TestKerberos logs in with the tickets of kinit to a server outside a domain, in each way that a remote names the cache, plain, signed
// and encrypted.
func TestKerberos(t *testing.T) {
	k := kdc.Start(t)
	keytab := k.AddKeytab(t, "cifs/127.0.0.1")
	t.Setenv("KRB5_CONFIG", k.KRB5Conf) // of smbd and of the backend
	global := []string{"realm = " + kdc.Realm, "kerberos method = dedicated keytab", "dedicated keytab file = " + keytab}
	cache := ""
	outer := t
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			options := map[string]string{"USE_KERBEROS": "true", "PASS": ""}
			path, srv := serve(t, rig.Config{Mode: mode, Global: global}, options)
			if cache == "" {
				k.AddUser(outer, srv.User)
				cache = k.CCache(outer, srv.User)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{"primary": "tickets\n", "tickets": read(t, cache)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, where := range []string{cache, "FILE:" + cache, "DIR:" + dir} {
				for _, variable := range []string{"RCLONE_CONFIG_TARNRIG_KERBEROS_CCACHE", "KRB5CCNAME"} {
					t.Run(variable+"="+where, func(t *testing.T) {
						t.Setenv(variable, where)
						put(t, open(t, path), "file", "by ticket")
					})
				}
			}
			t.Run("spn", func(t *testing.T) {
				t.Setenv("KRB5CCNAME", cache)
				t.Setenv("RCLONE_CONFIG_TARNRIG_HOST", "localhost")
				if _, err := open(t, path).List(t.Context(), ""); err == nil {
					t.Error("the KDC knows no cifs/localhost")
				}
				t.Setenv("RCLONE_CONFIG_TARNRIG_SPN", "cifs/127.0.0.1")
				put(t, open(t, path), "file", "by another name")
			})
			t.Run("no tickets", func(t *testing.T) {
				t.Setenv("KRB5CCNAME", "DIR:"+filepath.Join(dir, "none"))
				if _, err := newRemoteOf(t, path); err == nil {
					t.Error("a cache that does not exist")
				}
			})
		})
	}
}

// TestKerberosDomain logs in to a controller of an Active Directory.
func TestKerberosDomain(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1")
	}
	dc := addc.Start(t, addc.Config{})
	dc.AddUser(t, "alice", "Alice-secret-1")
	t.Setenv("KRB5_CONFIG", dc.KRB5Conf)
	_, port, err := net.SplitHostPort(dc.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RCLONE_CONFIG", os.DevNull)
	for key, value := range map[string]string{"TYPE": Type, "HOST": addc.HostName, "PORT": port, "USE_KERBEROS": "true",
		"KERBEROS_CCACHE": dc.CCache(t, "alice", "Alice-secret-1")} {
		t.Setenv("RCLONE_CONFIG_DOMAIN_"+key, value)
	}
	for _, encrypt := range []string{"", ",encrypt=true"} {
		f, err := newRemoteOf(t, "domain"+encrypt+":data")
		if err != nil {
			t.Fatal(err)
		}
		f.conns.dialer.DialFunc = dc.Dial
		put(t, f, "file", "by ticket")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
