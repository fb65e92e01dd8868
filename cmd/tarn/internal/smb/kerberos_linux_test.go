package smb

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/addc"
	"github.com/tarn-go/tarn/internal/rig/kdc"
)

// TestKerberos logs on with the tickets of kinit, to a server outside a domain and, with TARN_LONG=1, to a domain
// controller of an Active Directory.
func TestKerberos(t *testing.T) {
	t.Run("server", kerberosServer)
	if os.Getenv("TARN_LONG") == "1" {
		t.Run("domain", kerberosDomain)
	}
}

func kerberosServer(t *testing.T) {
	k := kdc.Start(t)
	keytab := k.AddKeytab(t, "cifs/127.0.0.1")
	t.Setenv("KRB5_CONFIG", k.KRB5Conf) // of smbd and of the command
	s := startServer(t, rig.Config{Global: []string{
		"realm = " + kdc.Realm, "kerberos method = dedicated keytab", "dedicated keytab file = " + keytab}})
	k.AddUser(t, s.User)
	t.Setenv("SMB_PASSWORD", "wrong")
	url := "smb://" + s.Addr + "/" + s.Share
	if r := run(t.Context(), "ls", s.url("")); r.status != cli.Failed {
		t.Errorf("without a ticket: %+v", r)
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KRB5CCNAME", "FILE:"+none)
	if r := run(t.Context(), "ls", "-kerberos", url); r.status != cli.Failed || !strings.Contains(r.err, none) {
		t.Errorf("no cache of tickets: %+v", r)
	}
	t.Setenv("KRB5CCNAME", "FILE:"+k.CCache(t, s.User))
	byTickets(t, url, s.Dir)
	other := "smb://" + strings.Replace(s.Addr, "127.0.0.1", "localhost", 1)
	if r := run(t.Context(), "ls", "-kerberos", other); r.status != cli.Failed || !strings.Contains(r.err, "no ticket for the server") {
		t.Errorf("a server that the KDC does not know: %+v", r)
	}
}

func kerberosDomain(t *testing.T) {
	dc := addc.Start(t, addc.Config{})
	dc.AddUser(t, "alice", "Alice-secret-1")
	before := net.DefaultResolver
	net.DefaultResolver = dc.Resolver(t)
	defer func() { net.DefaultResolver = before }()
	_, port, err := net.SplitHostPort(dc.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KRB5_CONFIG", dc.KRB5Conf)
	t.Setenv("KRB5CCNAME", dc.CCache(t, "alice", "Alice-secret-1"))
	byTickets(t, "smb://"+net.JoinHostPort(addc.HostName, port)+"/data", filepath.Join(dc.Dir, "data"))
}

// byTickets copies to a share, whose files are in dir, and back, in the clear, signed and encrypted.
func byTickets(t *testing.T, url, dir string) {
	t.Helper()
	local := t.TempDir()
	write(t, local, map[string]string{"src/a": "one", "src/b/c": strings.Repeat("two ", 50_000)})
	src := filepath.Join(local, "src")
	for name, flags := range map[string][]string{"plain": nil, "signed": {"-sign"}, "encrypted": {"-encrypt"}} {
		must(t, append([]string{"put", "-kerberos", "-r", src, url + "/" + name}, flags...)...)
		sameTree(t, src, filepath.Join(dir, name))
		must(t, append([]string{"get", "-kerberos", "-r", url + "/" + name, filepath.Join(local, name)}, flags...)...)
		sameTree(t, src, filepath.Join(local, name))
	}
	if r := must(t, "ls", "-kerberos", strings.TrimSuffix(url, "/"+filepath.Base(url))); !strings.Contains(r.out, filepath.Base(url)+"\n") {
		t.Errorf("shares: %q", r.out)
	}
}
