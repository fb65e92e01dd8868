// Package kdc runs a KDC of MIT Kerberos for tests, on a free loopback port, with its database in the test's
// temporary directory. It needs these Debian packages: krb5-kdc, krb5-admin-server and krb5-user.
package kdc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/leftout"
)

const (
	// Realm of every KDC, which is the default realm of its krb5.conf.
	Realm = "TARN.TEST"
	// Password of every user.
	Password = "correct horse"
)

// KDC is a running KDC. Its tickets have no PAC: a Samba server outside a domain refuses those that do.
type KDC struct {
	KRB5Conf string // path of a krb5.conf for the realm

	dir string
	env []string
}

// Start starts a KDC that is stopped when the test ends. Without its programs the test is left out.
func Start(t testing.TB) *KDC {
	t.Helper()
	leftout.Need(t, "krb5-kdc, krb5-admin-server, krb5-user", "krb5kdc", "kdb5_util", "kadmin.local", "kinit")
	k := &KDC{dir: t.TempDir()}
	k.KRB5Conf = filepath.Join(k.dir, "krb5.conf")
	port, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	write(t, k.KRB5Conf, ClientConf(Realm, port.Number()))
	profile := filepath.Join(k.dir, "kdc.conf")
	write(t, profile, fmt.Sprintf(`[kdcdefaults]
  kdc_listen = 127.0.0.1:%[2]d
  kdc_tcp_listen = 127.0.0.1:%[2]d
[realms]
  %[1]s = {
    database_name = %[3]s/principal
    key_stash_file = %[3]s/stash
    acl_file = %[3]s/acl
    max_life = 1h
    disable_pac = true
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal aes256-cts-hmac-sha384-192:normal
  }
[logging]
  kdc = FILE:%[3]s/kdc.log
`, Realm, port.Number(), k.dir))
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.KRB5Conf, "KRB5_KDC_PROFILE="+profile, "KRB5RCACHENAME=none:")
	k.run(t, "", "kdb5_util", "create", "-r", Realm, "-s", "-P", "master")
	cmd := exec.Command(program(t, "krb5kdc"), "-n", "-r", Realm, "-P", filepath.Join(k.dir, "pid"))
	cmd.Env = k.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(k.dir, "kdc.log"))
			t.Logf("KDC: %s%s", out.Bytes(), log)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := freeport.Await(ctx, port.Addr()); err != nil {
		t.Fatalf("the KDC does not listen: %v", err)
	}
	return k
}

// ClientConf is a krb5.conf for clients of a realm whose KDC listens on a port of 127.0.0.1: by TCP, and without DNS.
func ClientConf(realm string, port int) string {
	return fmt.Sprintf(`[libdefaults]
  default_realm = %[1]s
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  udp_preference_limit = 1
[realms]
  %[1]s = {
    kdc = 127.0.0.1:%[2]d
  }
`, realm, port)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := leftout.Path(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (k *KDC) run(t testing.TB, input, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t, name), args...)
	cmd.Env, cmd.Stdin = k.env, strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// AddUser makes a principal with [Password].
func (k *KDC) AddUser(t testing.TB, name string) {
	t.Helper()
	k.run(t, "", "kadmin.local", "-r", Realm, "-q", fmt.Sprintf("addprinc -pw %q %s", Password, name))
}

// AddKeytab makes a principal with a random key and returns the path of its keytab.
func (k *KDC) AddKeytab(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(k.dir, strings.ReplaceAll(name, "/", "-")+".keytab")
	k.run(t, "", "kadmin.local", "-r", Realm, "-q", "addprinc -randkey "+name)
	k.run(t, "", "kadmin.local", "-r", Realm, "-q", "ktadd -k "+path+" "+name)
	return path
}

// CCache runs kinit for a user and returns the path of the credential cache.
func (k *KDC) CCache(t testing.TB, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ccache")
	k.run(t, Password+"\n", "kinit", "-c", "FILE:"+path, user+"@"+Realm)
	return path
}
