//go:build linux

package krb5_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"

	"github.com/tarn-go/tarn/internal/rig/addc"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/krb5"
	smb2 "github.com/tarn-go/tarn/smb/krb5/gosmb2"
	"github.com/tarn-go/tarn/tarntest"
)

const alicePassword = "Alice-secret-1"

// Runs against Samba as an Active Directory domain controller: tickets with a PAC by password, keytab and
// credential cache; plain, signed and encrypted sessions; names of the domain, DFS.
func TestActiveDirectory(t *testing.T) {
	dc := addc.Start(t, addc.Config{
		Shares: []string{
			"[dfs]\n  path = %DIR%/dfs\n  msdfs root = yes\n  read only = no",
			"[root]\n  path = %DIR%/dfs\n  msdfs root = yes\n  msdfs proxy = \\gone." + addc.DNSName + `\data,\` + addc.HostName + `\data`,
		},
	})
	dc.AddUser(t, "alice", alicePassword)
	t.Run("credentials", func(t *testing.T) { adCredentials(t, dc) })
	t.Run("protection", func(t *testing.T) { adProtection(t, dc) })
	t.Run("looked up in dns", func(t *testing.T) { adLookup(t, dc) })
	t.Run("refusals", func(t *testing.T) { adRefusals(t, dc) })
	t.Run("dfs", func(t *testing.T) { adDFS(t, dc) })
	t.Run("dfs root", func(t *testing.T) { adDFSRoot(t, dc) })
	t.Run("expiry", func(t *testing.T) { adExpiry(t, dc) })
	t.Run("go-smb2", func(t *testing.T) { adGoSMB2(t, dc) })
	t.Run("ntlm", func(t *testing.T) {
		roundTrip(t, dc, smb.Dialer{Initiator: smb.NTLM{User: "alice", Password: alicePassword, Domain: addc.NetBIOS}})
	})
}

// dialer completes a Dialer for the domain.
func dialer(t *testing.T, dc *addc.Domain, d smb.Dialer) *smb.Dialer {
	d.DialFunc, d.Pool = dc.Dial, tarntest.NewPool(t)
	return &d
}

func initiator(t *testing.T, cfg krb5.Config) *krb5.Initiator {
	t.Helper()
	i, err := krb5.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

// roundTrip logs on, writes and reads a file, and returns what was negotiated.
func roundTrip(t *testing.T, dc *addc.Domain, d smb.Dialer) smb.SessionInfo {
	t.Helper()
	s, err := dialer(t, dc, d).Dial(t.Context(), addc.HostName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	share, err := s.Mount(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	if err := share.WriteFile("file", []byte(t.Name()), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := share.ReadFile("file"); err != nil || string(b) != t.Name() {
		t.Errorf("%q, %v", b, err)
	}
	if err := share.Remove("file"); err != nil {
		t.Error(err)
	}
	return s.Info()
}

func adCredentials(t *testing.T, dc *addc.Domain) {
	for name, cfg := range map[string]krb5.Config{
		"password": {User: "alice", Realm: addc.Realm, Password: alicePassword},
		"keytab":   {User: "alice", Realm: addc.Realm, Keytab: dc.Keytab(t, "alice")},
		"ccache":   {CCache: "FILE:" + dc.CCache(t, "alice", alicePassword)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.ConfigFile = dc.KRB5Conf
			roundTrip(t, dc, smb.Dialer{Initiator: initiator(t, cfg)})
		})
	}
}

func adProtection(t *testing.T, dc *addc.Domain) {
	i := initiator(t, krb5.Config{User: "alice", Password: alicePassword, ConfigFile: dc.KRB5Conf})
	if info := roundTrip(t, dc, smb.Dialer{Initiator: i, RequireSigning: true}); !info.Signing {
		t.Errorf("not signed: %+v", info)
	}
	for _, cipher := range []smb.Cipher{smb.AES128GCM, smb.AES256GCM} {
		info := roundTrip(t, dc, smb.Dialer{Initiator: i, RequireEncryption: true, Ciphers: []smb.Cipher{cipher}})
		if !info.Encrypted || info.Cipher != cipher {
			t.Errorf("%v: %+v", cipher, info)
		}
	}
	if info := roundTrip(t, dc, smb.Dialer{Initiator: i, MaxDialect: smb.SMB210}); info.Dialect != smb.SMB210 {
		t.Errorf("%+v", info)
	}
}

// Without a krb5.conf and without a server's name, the KDC and the domain's controllers are found in DNS. The
// first controller does not answer.
func adLookup(t *testing.T, dc *addc.Domain) {
	resolver := dc.Resolver(t)
	before := net.DefaultResolver // gokrb5 uses no other
	net.DefaultResolver = resolver
	defer func() { net.DefaultResolver = before }()
	names, err := smb.DomainControllers(t.Context(), nil, addc.DNSName)
	if err != nil || !slices.Equal(names, []string{addc.Gone, addc.HostName}) {
		t.Fatalf("%v, %v", names, err)
	}
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(conf, []byte("[libdefaults]\n  dns_lookup_kdc = true\n  udp_preference_limit = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := initiator(t, krb5.Config{User: "alice", Realm: addc.Realm, Password: alicePassword, ConfigFile: conf})
	s, err := dialer(t, dc, smb.Dialer{Initiator: i, RequireSigning: true}).DialDomain(t.Context(), resolver, addc.DNSName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	share, err := s.Mount(t.Context(), "root") // of the domain's DFS
	if err != nil {
		t.Fatal(err)
	}
	if err := share.WriteFile("looked-up", []byte("x"), 0o666); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dc.Dir, "data", "looked-up")); err != nil {
		t.Error(err)
	}
}

func adRefusals(t *testing.T, dc *addc.Domain) {
	wrong := initiator(t, krb5.Config{User: "alice", Password: "Wrong-secret-1", ConfigFile: dc.KRB5Conf})
	if _, err := dialer(t, dc, smb.Dialer{Initiator: wrong}).Dial(t.Context(), addc.HostName); !errors.Is(err, krb5.ErrTicket) || !errors.Is(err, smb.ErrLogin) {
		t.Errorf("wrong password: %v", err)
	}
	i := initiator(t, krb5.Config{User: "alice", Password: alicePassword, ConfigFile: dc.KRB5Conf, SPN: "cifs/other." + addc.DNSName})
	if _, err := dialer(t, dc, smb.Dialer{Initiator: i}).Dial(t.Context(), addc.HostName); !errors.Is(err, krb5.ErrTicket) || errors.Is(err, smb.ErrLogin) {
		t.Errorf("a server that the domain does not know: %v", err)
	}
	d := dialer(t, dc, smb.Dialer{Initiator: smb.NTLM{User: "alice", Password: "Wrong-secret-1", Domain: addc.NetBIOS}})
	if _, err := d.Dial(t.Context(), addc.HostName); !errors.Is(err, os.ErrPermission) {
		t.Errorf("NTLM, wrong password: %v", err)
	}
}

// A link with two targets, of which the first does not answer.
func adDFS(t *testing.T, dc *addc.Domain) {
	root := filepath.Join(dc.Dir, "dfs")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	link := `msdfs:gone.` + addc.DNSName + `\data,` + addc.HostName + `\data`
	if err := os.Symlink(link, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	i := initiator(t, krb5.Config{User: "alice", Password: alicePassword, ConfigFile: dc.KRB5Conf})
	s, err := dialer(t, dc, smb.Dialer{Initiator: i}).Dial(t.Context(), addc.HostName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	share, err := s.Mount(t.Context(), "dfs")
	if err != nil {
		t.Fatal(err)
	}
	if err := share.WriteFile("link/file", []byte("by the second target"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dc.Dir, "data", "file")); err != nil || string(b) != "by the second target" {
		t.Errorf("%q, %v", b, err)
	}
}

// onlyGoSMB2 hides that an initiator also implements package smb's interface.
type onlyGoSMB2 struct{ smb2.Initiator }

// Uses go-smb2's initiator with the program's own gokrb5 client, through package smb's interface and through
// go-smb2's alone.
func adGoSMB2(t *testing.T, dc *addc.Domain) {
	conf, err := config.Load(dc.KRB5Conf)
	if err != nil {
		t.Fatal(err)
	}
	cl := client.NewWithPassword("alice", addc.Realm, alicePassword, conf, client.DisablePAFXFAST(true))
	defer cl.Destroy()
	i := &smb2.Krb5Initiator{Client: cl, TargetSPN: addc.SPN}
	for name, i := range map[string]smb2.Initiator{"both": i, "go-smb2": onlyGoSMB2{i}} {
		t.Run(name, func(t *testing.T) {
			d := smb2.Dialer{Initiator: i, SMB: *dialer(t, dc, smb.Dialer{RequireEncryption: true, Ciphers: []smb.Cipher{smb.AES128GCM}})}
			s, err := d.Dial(t.Context(), addc.HostName)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Logoff()
			share, err := s.Mount("data")
			if err != nil {
				t.Fatal(err)
			}
			sd, err := share.SecurityInfo("", smb2.OwnerSecurityInformation|smb2.DACLSecurityInformation)
			if err != nil || sd.String() == "" {
				t.Errorf("%v, %v", sd, err)
			}
			f, err := share.Create("of go-smb2")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("x"); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := (&smb2.Krb5Initiator{TargetSPN: addc.SPN}).InitSecContext(); err == nil {
		t.Error("no Client: no error")
	}
	if _, err := (&smb2.Krb5Initiator{Client: cl}).InitSecContext(); err == nil {
		t.Error("no TargetSPN: no error")
	}
}

// A session lasts longer than its ticket: when the ticket expires the user is authenticated again with a new
// one, on the same connection, without an error for users of the share or of an open file.
func adExpiry(t *testing.T, dc *addc.Domain) {
	for name, d := range map[string]smb.Dialer{"signed": {}, "encrypted": {RequireEncryption: true}} {
		t.Run(name, func(t *testing.T) { adExpiryOf(t, dc, d) })
	}
}

// counted counts the authentications that an Initiator starts.
type counted struct {
	smb.Initiator
	started atomic.Int32
}

func (c *counted) Start(ctx context.Context, host string) (smb.SecurityContext, error) {
	c.started.Add(1)
	return c.Initiator.Start(ctx, host)
}

func adExpiryOf(t *testing.T, dc *addc.Domain, d smb.Dialer) {
	conf, err := config.Load(dc.KRB5Conf)
	if err != nil {
		t.Fatal(err)
	}
	cl := client.NewWithPassword("alice", addc.Realm, alicePassword, conf, client.DisablePAFXFAST(true))
	defer cl.Destroy()
	if err := cl.Login(); err != nil {
		t.Fatal(err)
	}
	// The ticket for the server has this lifetime from here on. (The ticket-granting ticket must last for
	// more than two minutes: Samba takes a shorter one for a ticket for changing a password.)
	cl.Config.LibDefaults.TicketLifetime = 4 * time.Second
	i := krb5.FromClient(cl, addc.SPN)
	defer i.Close()
	logins := &counted{Initiator: i}
	d.Initiator, d.NoDurable = logins, true
	dd := dialer(t, dc, d)
	var dialled atomic.Int32
	dd.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		return dc.Dial(ctx, network, addr)
	}
	s, err := dd.Dial(t.Context(), addc.HostName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	share, err := s.Mount(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	f, err := share.Create("open")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(45 * time.Second)
	for n := 0; logins.started.Load() < 2; n++ {
		if err := share.WriteFile("lasting", fmt.Append(nil, n), 0o666); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		if b, err := share.ReadFile("lasting"); err != nil || string(b) != fmt.Sprint(n) {
			t.Fatalf("read %d: %q, %v", n, b, err)
		}
		if _, err := f.WriteAt(make([]byte, 100), int64(n)*100); err != nil {
			t.Fatalf("open file, write %d: %v", n, err)
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d authentications after %d rounds: no session has expired", logins.started.Load(), n)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A root by the domain's name, `\\ad.tarn.test\root`, has two targets, of which the first does not answer:
// names in it lead to the second.
func adDFSRoot(t *testing.T, dc *addc.Domain) {
	i := initiator(t, krb5.Config{User: "alice", Password: alicePassword, ConfigFile: dc.KRB5Conf, SPN: addc.SPN})
	s, err := dialer(t, dc, smb.Dialer{Initiator: i}).Dial(t.Context(), addc.DNSName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	share, err := s.Mount(t.Context(), "root")
	if err != nil {
		t.Fatal(err)
	}
	if err := share.WriteFile("by-root", []byte("by the domain's root"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dc.Dir, "data", "by-root")); err != nil || string(b) != "by the domain's root" {
		t.Errorf("%q, %v", b, err)
	}
	if list, err := share.ReadDir(""); err != nil || len(list) == 0 {
		t.Errorf("%v, %v", list, err)
	}
}
