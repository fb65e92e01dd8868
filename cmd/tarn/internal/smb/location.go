package smb

import (
	"net"
	"net/url"
	"path"
	"strings"
)

// location is a place on a server, parsed from a URL.
type location struct {
	user, domain string
	addr         string // host:port
	share        string // "" is the server itself
	path         string // in the share, "/" between names, "." is its root
}

// parseLocation reads smb://[domain;][user@]host[:port][/share[/path]].
func parseLocation(s string) (location, error) {
	rest, ok := strings.CutPrefix(s, "smb://")
	if !ok {
		return location{}, usageError("%q is not of the form smb://host/share/path", s)
	}
	// "#" may be in names, "?" and "[" match others, and DOMAIN\user is how Windows writes a user: the
	// parser is to see them as nothing else.
	host, rest, slash := strings.Cut(rest, "/")
	host = strings.ReplaceAll(host, `\`, "%5C")
	rest = strings.NewReplacer("#", "%23", "?", "%3F").Replace(rest)
	if slash {
		host += "/"
	}
	u, err := url.Parse("smb://" + host + rest)
	if err != nil {
		return location{}, usageError("%q is not a URL (write %% as %%25)", s)
	}
	if _, has := u.User.Password(); has {
		return location{}, usageError("a password in the command line can be seen by others; use SMB_PASSWORD, -password-file or the prompt")
	}
	if u.Hostname() == "" {
		return location{}, usageError("%q has no host", s)
	}
	l := location{user: u.User.Username(), path: "."}
	if domain, user, ok := cutAny(l.user, ";", `\`); ok {
		l.domain, l.user = domain, user
	}
	port := u.Port()
	if port == "" {
		port = "445"
	}
	l.addr = net.JoinHostPort(u.Hostname(), port)
	share, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	l.share = share
	if p := path.Clean("/" + rest); p != "/" {
		l.path = p[1:]
	}
	return l, nil
}

func cutAny(s string, seps ...string) (before, after string, found bool) {
	for _, sep := range seps {
		if before, after, found = strings.Cut(s, sep); found {
			return before, after, true
		}
	}
	return "", s, false
}

// String is the location as it is shown: a URL without the user.
func (l location) String() string {
	s := "smb://" + strings.TrimSuffix(l.addr, ":445")
	if l.share != "" {
		s += "/" + l.share
	}
	if l.path != "." {
		s += "/" + l.path
	}
	return strings.ReplaceAll(s, "%", "%25")
}

// url is a URL that parseLocation reads as l.
func (l location) url() string {
	u := url.URL{Scheme: "smb", Host: l.addr, Path: "/" + l.share + "/" + l.path}
	user := l.user
	if l.domain != "" {
		user = l.domain + ";" + user
	}
	if user != "" {
		u.User = url.User(user)
	}
	return u.String()
}

// base is the last name of the location: that of its share for the root of one.
func (l location) base() string {
	if l.path == "." {
		return l.share
	}
	return path.Base(l.path)
}

// isURL reports whether s means a place on a server.
func isURL(s string) bool { return strings.HasPrefix(s, "smb://") }
