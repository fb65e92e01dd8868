package smb

import (
	"fmt"
	"net/netip"
	"strings"
)

// allowedReferral returns the name by which to dial a host that a DFS referral names, or the error that it may not be dialled. s is the
// session that the program has dialled.
func (s *Session) allowedReferral(host string) (string, error) {
	if allow := s.cfg.AllowReferral; allow != nil {
		if allow(host) {
			return host, nil
		}
	} else {
		dialled := s.using().host
		if named := inDomainOf(dialled, host); SameDomain(dialled, named) {
			return named, nil
		}
	}
	return "", fmt.Errorf("%w: %q", ErrReferral, host)
}

// SameDomain reports whether host is dialled, or in the same DNS domain: the part of dialled behind its first label if that part has
// two labels or more, or else dialled itself. Case and a period at the end are ignored. Names of one label are all in one domain. An
// IP address is in none.
func SameDomain(dialled, host string) bool {
	dialled, host = canonicalHost(dialled), canonicalHost(host)
	if dialled == host {
		return true
	}
	if host == "" || isIP(dialled) || isIP(host) {
		return false
	}
	domain := domainOf(dialled)
	if domain == "" {
		return !strings.Contains(host, ".")
	}
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// domainOf is the domain of a host in canonical form, as SameDomain describes it; "" for a name of one label and for an address.
func domainOf(host string) string {
	_, parent, ok := strings.Cut(host, ".")
	switch {
	case !ok || isIP(host):
		return ""
	case strings.Contains(parent, "."):
		return parent
	}
	return host
}

// inDomainOf completes a host of one label with what is behind the first label of dialled: servers name others by their NetBIOS
// names, and the domains in which this machine looks up such a name may be others.
func inDomainOf(dialled, host string) string {
	c := canonicalHost(dialled)
	first, parent, ok := strings.Cut(c, ".")
	if !ok || isIP(c) || host == "" || strings.Contains(host, ".") || isIP(host) {
		return host
	}
	if canonicalHost(host) == first {
		return dialled
	}
	if !strings.Contains(parent, ".") {
		return host // dialled may be a domain itself, or a host in a domain of one label
	}
	return host + "." + parent
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
