package krb5

import (
	"bytes"
	"context"
	"fmt"
	"net"
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
	testRealm    = "TARN.TEST"
	testPassword = "correct horse"
)

// kdc is a KDC of MIT Kerberos on a free loopback port, with its database in the test's temporary directory.
type kdc struct {
	dir, conf string
	env       []string
}

// missing lists the programs of krb5-kdc and krb5-admin-server that are not installed.
func missing(programs ...string) string {
	var out []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if _, err := os.Stat("/usr/sbin/" + p); err != nil {
				out = append(out, p)
			}
		}
	}
	return strings.Join(out, ", ")
}

func program(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	return "/usr/sbin/" + name
}

func leaveOut(t *testing.T, why string) {
	t.Helper()
	leftout.Skip(t, why)
}

// startKDC starts a KDC with the given further lines for krb5.conf's [libdefaults].
func startKDC(t *testing.T, libdefaults string) *kdc {
	t.Helper()
	if m := missing("krb5kdc", "kdb5_util", "kadmin.local"); m != "" {
		leaveOut(t, "no "+m+" (Debian: krb5-kdc, krb5-admin-server)")
	}
	k := &kdc{dir: t.TempDir()}
	k.conf = filepath.Join(k.dir, "krb5.conf")
	port := freePort(t)
	k.write(t, k.conf, fmt.Sprintf(`[libdefaults]
  default_realm = %[1]s
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  udp_preference_limit = 1
  default_ccache_name = FILE:%[4]s/ccache
%[3]s
[realms]
  %[1]s = {
    kdc = 127.0.0.1:%[2]d
  }
`, testRealm, port, libdefaults, k.dir))
	profile := filepath.Join(k.dir, "kdc.conf")
	k.write(t, profile, fmt.Sprintf(`[kdcdefaults]
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
`, testRealm, port, k.dir))
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.conf, "KRB5_KDC_PROFILE="+profile, "KRB5RCACHENAME=none:")
	k.run(t, "kdb5_util", "create", "-r", testRealm, "-s", "-P", "master")
	cmd := exec.Command(program("krb5kdc"), "-n", "-r", testRealm, "-P", filepath.Join(k.dir, "pid"))
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
	waitFor(t, fmt.Sprintf("127.0.0.1:%d", port))
	return k
}

func (k *kdc) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (k *kdc) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(name), args...)
	cmd.Env = k.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// addUser makes a principal with testPassword.
func (k *kdc) addUser(t *testing.T, name string) {
	k.run(t, "kadmin.local", "-r", testRealm, "-q", fmt.Sprintf("addprinc -pw %q %s", testPassword, name))
}

// addKeytab makes a principal with a random key and returns the path of its keytab.
func (k *kdc) addKeytab(t *testing.T, name string) string {
	path := filepath.Join(k.dir, strings.ReplaceAll(name, "/", "-")+".keytab")
	k.run(t, "kadmin.local", "-r", testRealm, "-q", "addprinc -randkey "+name)
	k.run(t, "kadmin.local", "-r", testRealm, "-q", "ktadd -k "+path+" "+name)
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	p, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p.Number()
}

// waitFor waits until a program listens at addr.
func waitFor(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("nothing listens at %s", addr)
		}
	}
}
