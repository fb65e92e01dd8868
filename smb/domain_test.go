package smb_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// records is a Resolver that knows one domain.
type records []string

func (r records) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "ldap" || proto != "tcp" || name != "dc._msdcs.ad.test" {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	var list []*net.SRV
	for _, target := range r {
		list = append(list, &net.SRV{Target: target, Port: 389})
	}
	return "", list, nil
}

func TestDomainControllers(t *testing.T) {
	var many records
	for i := range 40 {
		many = append(many, fmt.Sprintf("dc%d.ad.test.", i))
	}
	for _, c := range []struct {
		r      records
		domain string
		want   int
		first  string
	}{
		{records{"dc1.ad.test.", "dc2.ad.test."}, "ad.test", 2, "dc1.ad.test"},
		{records{"dc1.ad.test"}, "ad.test.", 1, "dc1.ad.test"},
		{many, "ad.test", 16, "dc0.ad.test"},
		{records{"."}, "ad.test", 0, ""},
		{nil, "ad.test", 0, ""},
		{records{"dc1.ad.test."}, "other.test", 0, ""},
	} {
		names, err := smb.DomainControllers(t.Context(), c.r, c.domain)
		var dns *net.DNSError
		if len(names) != c.want || c.want > 0 && (err != nil || names[0] != c.first) ||
			c.want == 0 && (!errors.As(err, &dns) || !dns.IsNotFound) {
			t.Errorf("%s: %v, %v", c.domain, names, err)
		}
	}
}

// Controllers that cannot be reached are skipped; after one that refuses the user no other is tried.
func TestDialDomain(t *testing.T) {
	good := &script.Server{}
	refuses := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
		if m.Command != proto.CommandSessionSetup {
			return false
		}
		c.Refuse(m, proto.StatusLogonFailure)
		return true
	}}
	hangsUp := &script.Server{Hook: func(c *script.Conn, _ *script.Message) bool {
		c.Close()
		return true
	}}
	hosts := map[string]*script.Server{"good": good, "refuses": refuses, "hangs-up": hangsUp}
	for _, c := range []struct {
		controllers records
		dialled     []string
		err         error // nil: a session
	}{
		{records{"good.", "refuses."}, []string{"good"}, nil},
		{records{"gone.", "hangs-up.", "good."}, []string{"gone", "hangs-up", "good"}, nil},
		{records{"gone.", "refuses.", "good."}, []string{"gone", "refuses"}, fs.ErrPermission},
		{records{"gone.", "hangs-up."}, []string{"gone", "hangs-up"}, smb.ErrConnLost},
	} {
		var dialled []string
		d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1, RedialTimeout: -1},
			DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				dialled = append(dialled, host)
				s := hosts[host]
				if s == nil {
					return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
				}
				return through(t, s.Dial)(ctx, network, addr)
			}}
		s, err := d.DialDomain(t.Context(), c.controllers, "ad.test")
		if c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.controllers, err)
		}
		if dialled = slices.Compact(dialled); !slices.Equal(dialled, c.dialled) {
			t.Errorf("%v: dialled %v", c.controllers, dialled)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := new(smb.Dialer).DialDomain(t.Context(), records{"good."}, "ad.test"); err == nil {
		t.Error("Dial without an Initiator succeeded")
	}
}

// TestDialDomainAgain makes the controllers unreachable one after the other: a lost connection is replaced by
// one to the same controller, or to the next one when that cannot be reached, and a file that was open on
// another controller is lost.
func TestDialDomainAgain(t *testing.T) {
	for _, protection := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		t.Run(protection, func(t *testing.T) {
			p := newPuppets(protections()[protection], "dc1", "dc2", "dc3")
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, p.dial),
				Limits: smb.Limits{KeepAlive: -1, RedialTimeout: -1}}
			s, err := d.DialDomain(t.Context(), records{"dc1.", "dc2.", "dc3."}, "ad.test")
			must(t, err)
			defer s.Close()
			share, err := s.Mount(t.Context(), "share")
			must(t, err)
			for _, step := range []struct {
				reachable string // controllers that can be reached, separated by spaces
				dialled   string
				lost      bool // what is open
			}{
				{"dc1 dc2 dc3", "dc1", false},
				{"dc2 dc3", "dc1 dc2", true},
				{"dc1 dc2 dc3", "dc2", false},
				{"dc1", "dc2 dc3 dc1", true},
			} {
				dir, err := share.Open(".")
				must(t, err)
				p.closeConns(step.reachable)
				if _, err := share.Stat("file"); err != nil {
					t.Fatalf("%+v: %v", step, err)
				}
				dialled := p.dialled()
				if got := strings.Join(dialled, " "); got != step.dialled {
					t.Errorf("%+v: dialled %s", step, got)
				}
				if addr := s.Info().Addr; addr != dialled[len(dialled)-1]+":445" {
					t.Errorf("%+v: Addr is %s", step, addr)
				}
				if _, err := dir.Stat(); errors.Is(err, smb.ErrHandleLost) != step.lost || !step.lost && err != nil {
					t.Errorf("%+v: a directory that was open: %v", step, err)
				}
				dir.Close()
			}
			p.closeConns("")
			if _, err := share.Stat("file"); !errors.Is(err, smb.ErrConnLost) {
				t.Errorf("no controller: %v", err)
			}
		})
	}
}

// puppets are hosts of one kind, of which a test says which can be reached.
type puppets struct {
	server *script.Server

	mu        sync.Mutex
	reachable []string
	conns     []net.Conn
	log       []string // hosts dialled
}

func newPuppets(server *script.Server, hosts ...string) *puppets {
	server.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command != proto.CommandCreate || script.NameOf(m) != "" {
			return false
		}
		c.Opened(m, nil, func(body []byte) { le.PutUint32(body[56:], uint32(proto.AttrDirectory)) })
		return true
	}
	return &puppets{server: server, reachable: hosts}
}

func (p *puppets) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, host)
	if !slices.Contains(p.reachable, host) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	nc, err := p.server.Dial(ctx, network, addr)
	p.conns = append(p.conns, nc)
	return nc, err
}

// closeConns closes all connections. Afterwards only the named hosts can be reached.
func (p *puppets) closeConns(reachable string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, nc := range p.conns {
		nc.Close()
	}
	p.conns, p.reachable, p.log = nil, strings.Fields(reachable), nil
}

// dialled are the hosts dialled since the last loss.
func (p *puppets) dialled() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}
