package smb

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Resolver looks up SRV records. *net.Resolver is one.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// maxControllers bounds how many controllers of a domain are tried, since DNS may list any number.
const maxControllers = 16

// DomainControllers looks up the names of an Active Directory domain's controllers in DNS (SRV records of
// _ldap._tcp.dc._msdcs and the domain, MS-ADTS 6.3.2.3), at most 16, in the order in which RFC 2782 has
// clients try them. r may be nil: net.DefaultResolver. The records' ports are LDAP's and are not returned.
// The error is the resolver's. DNS answers are not authenticated; Kerberos, or a server that signs,
// authenticates the controller.
func DomainControllers(ctx context.Context, r Resolver, domain string) ([]string, error) {
	if r == nil {
		r = net.DefaultResolver
	}
	_, records, err := r.LookupSRV(ctx, "ldap", "tcp", "dc._msdcs."+strings.TrimSuffix(domain, "."))
	if err != nil {
		return nil, fmt.Errorf("smb: controllers of %s: %w", domain, err)
	}
	var names []string
	for _, rec := range records {
		// "." means that the service does not exist (RFC 2782).
		if name := strings.TrimSuffix(rec.Target, "."); name != "" && len(names) < maxControllers {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("smb: controllers of %s: %w", domain,
			&net.DNSError{Err: "no domain controller", Name: domain, IsNotFound: true})
	}
	return names, nil
}

// DialDomain is Dial to a controller of an Active Directory domain: to the first of [DomainControllers] that
// can be reached and answers. The Initiator gets that controller's host name, which Kerberos needs. When a
// controller refuses the user, no other controller is tried, since wrong passwords lock accounts. Each
// attempt is bounded by Limits.DialTimeout. r may be nil: net.DefaultResolver.
//
// On such a session the domain's DFS roots, \\domain\root, are mounted by the root's name. A lost connection
// is dialled again at the same controller and, when that cannot be reached, at the next one. Files and
// directories that were open on another controller are lost: their next use fails with ErrHandleLost.
func (d *Dialer) DialDomain(ctx context.Context, r Resolver, domain string) (*Session, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	names, err := DomainControllers(ctx, r, domain)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = net.JoinHostPort(name, DefaultPort)
	}
	return d.dialFirst(ctx, names)
}
