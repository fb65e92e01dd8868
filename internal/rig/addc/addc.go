//go:build linux

// Package addc runs Samba as an Active Directory domain controller for tests: Kerberos and SMB on free
// loopback ports, in a temporary directory that is removed at the end.
//
// samba-tool provisions the domain, which takes some seconds. The server runs in its own mount and PID
// namespace: smbd looks for winbindd in a directory that was fixed when it was compiled, and ending the
// namespace's first process ends all others. It needs root and these Debian packages: samba,
// samba-common-bin, samba-ad-provision, samba-dsdb-modules, samba-vfs-modules, winbind, python3-markdown,
// python3-dnspython and krb5-user.
package addc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig/kdc"
)

// Names of the domain.
const (
	Realm    = "AD.TARN.TEST"
	DNSName  = "ad.tarn.test"
	NetBIOS  = "ADTARN"
	HostName = "dc1.ad.tarn.test"
	SPN      = "cifs/" + HostName
)

const packages = "samba, samba-ad-provision, samba-dsdb-modules, samba-vfs-modules, winbind, python3-markdown, python3-dnspython, krb5-user"

// Config holds the settings in which domains differ.
type Config struct {
	Global []string // further lines for [global]
	Shares []string // further complete sections; %DIR% is Domain.Dir
}

// Domain is a running domain controller. Its share "data" is open to all users.
type Domain struct {
	Addr     string // of SMB: host:port
	KRB5Conf string // path of a krb5.conf for the domain
	Dir      string // holds the shares' directories; "data" is one of them

	root string
	// Reserved until the test ends: of SMB, the KDC and kpasswd.
	ports []*freeport.Port
	kdc   int
	cmd   *exec.Cmd
	out   bytes.Buffer
}

// Start provisions a domain and runs it until the test ends. Without root or without Samba's programs it
// skips the test.
func Start(t testing.TB, cfg Config) *Domain {
	t.Helper()
	leftout.Need(t, packages, "samba", "samba-tool", "winbindd", "kinit", "unshare")
	if _, err := os.Stat("/usr/share/samba/setup/ad-schema"); err != nil {
		leftout.Skip(t, "the schema of Active Directory is not installed (Debian: samba-ad-provision)")
	}
	if os.Geteuid() != 0 {
		leftout.Skip(t, "a domain controller needs root, for its namespaces and the files of sysvol")
	}
	d := &Domain{}
	var err error
	if d.root, err = os.MkdirTemp(memory(), "tarnad"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("domain controller: %s\n%s", d.out.String(), d.log())
		}
		for _, p := range d.ports {
			p.Release()
		}
		os.RemoveAll(d.root)
	})
	if err := d.provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// memory returns a directory in memory where there is one: provisioning writes the domain's database in
// thousands of small transactions.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func (d *Domain) path(name ...string) string {
	return filepath.Join(append([]string{d.root}, name...)...)
}

func (d *Domain) conf() string { return d.path("etc", "smb.conf") }

func (d *Domain) provision(ctx context.Context, cfg Config) error {
	first := d.path("provision.conf")
	if err := os.WriteFile(first, []byte("[global]\n  interfaces = lo\n  bind interfaces only = yes\n"), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(d.root, 0o755); err != nil {
		return err
	}
	if err := d.tool(ctx, "domain", "provision", "-s", first, "--realm="+Realm, "--domain="+NetBIOS, "--server-role=dc",
		"--dns-backend=NONE", "--targetdir="+d.root, "--host-name=dc1", "--host-ip=127.0.0.1",
		"--adminpass=Tarn-admin-1", "--option=ldb:nosync=true"); err != nil {
		return err
	}
	for _, dir := range []string{"pid", "ncalrpc", "log", "cache", "lock", "run", "shares", "shares/data"} {
		if err := os.MkdirAll(d.path(dir), 0o755); err != nil {
			return err
		}
	}
	d.Dir = d.path("shares")
	if err := os.Chmod(d.path("shares", "data"), 0o777); err != nil {
		return err
	}
	var ports [3]int
	for i := range ports {
		p, err := freeport.Reserve()
		if err != nil {
			return err
		}
		d.ports = append(d.ports, p)
		ports[i] = p.Number()
	}
	d.Addr, d.kdc = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), ports[1]
	if err := os.WriteFile(d.conf(), []byte(d.configuration(cfg, ports)), 0o644); err != nil {
		return err
	}
	d.KRB5Conf = d.path("krb5.conf")
	return os.WriteFile(d.KRB5Conf, []byte(kdc.ClientConf(Realm, d.kdc)), 0o644)
}

func (d *Domain) configuration(cfg Config, ports [3]int) string {
	return fmt.Sprintf(`[global]
  netbios name = DC1
  realm = %[1]s
  workgroup = %[2]s
  server role = active directory domain controller
  server services = s3fs, kdc, winbindd
  interfaces = lo
  bind interfaces only = yes
  smb ports = %[3]d
  krb5 port = %[4]d
  kpasswd port = %[5]d
  private dir = %[6]s/private
  state directory = %[6]s/state
  cache directory = %[6]s/cache
  lock directory = %[6]s/lock
  pid directory = %[6]s/pid
  ncalrpc dir = %[6]s/ncalrpc
  binddns dir = %[6]s/bind-dns
  log file = %[6]s/log/log
  max log size = 10000
  ldb:nosync = true
  load printers = no
  disable spoolss = yes
  disable netbios = yes
  host msdfs = yes
  server signing = auto
  %[7]s
[data]
  path = %[8]s/data
  read only = no
%[9]s
`, Realm, NetBIOS, ports[0], ports[1], ports[2], d.root, strings.Join(cfg.Global, "\n  "), d.Dir,
		strings.ReplaceAll(strings.Join(cfg.Shares, "\n"), "%DIR%", d.Dir))
}

// tool runs samba-tool.
func (d *Domain) tool(ctx context.Context, args ...string) error {
	path, err := leftout.Path("samba-tool")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("samba-tool %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Run starts the domain controller, also after Stop, and waits until it answers.
func (d *Domain) Run(ctx context.Context) error {
	if err := os.MkdirAll("/run/samba", 0o755); err != nil {
		return err
	}
	samba, err := leftout.Path("samba")
	if err != nil {
		return err
	}
	script := fmt.Sprintf("mount --bind %s /run/samba && exec %s -s %s -F -M single --no-process-group", d.path("run"), samba, d.conf())
	d.cmd = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, addr := range []string{d.Addr, net.JoinHostPort("127.0.0.1", strconv.Itoa(d.kdc))} {
		if err := freeport.Await(ctx, addr); err != nil {
			return fmt.Errorf("the domain controller does not answer: %w\n%s", err, d.log())
		}
	}
	return nil
}

// Stop kills the domain controller. Its files stay until the test ends.
func (d *Domain) Stop() {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Kill()
	d.cmd.Wait()
	d.cmd = nil
}

func (d *Domain) log() string {
	b, err := os.ReadFile(d.path("log", "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// AddUser makes a user.
func (d *Domain) AddUser(t testing.TB, name, password string) {
	t.Helper()
	if err := d.tool(t.Context(), "user", "add", name, password, "-s", d.conf()); err != nil {
		t.Fatal(err)
	}
}

// Keytab exports the keys of a principal and returns the file's path.
func (d *Domain) Keytab(t testing.TB, principal string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keytab")
	if err := d.tool(t.Context(), "domain", "exportkeytab", path, "--principal="+principal, "-s", d.conf()); err != nil {
		t.Fatal(err)
	}
	return path
}

// CCache runs kinit, with the further arguments args, and returns the path of the credential cache.
func (d *Domain) CCache(t testing.TB, user, password string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ccache")
	cmd := exec.CommandContext(t.Context(), "kinit", append(args, user+"@"+Realm)...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+d.KRB5Conf, "KRB5CCNAME=FILE:"+path)
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kinit: %v\n%s", err, out)
	}
	return path
}

// Dial connects to the domain controller by any of its names, at any port, as with DNS and port 445. Other
// hosts are not found. It is for Dialer.DialFunc.
func (d *Domain) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host != DNSName && host != HostName {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return new(net.Dialer).DialContext(ctx, network, d.Addr)
}
