package smb

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

// Bounds of a namespace. No server and share is forgotten to make room: files may be open there.
const (
	maxReferrals     = 1000
	maxTargetServers = 1000
	maxTargetShares  = 4096
)

var (
	errManyServers = fmt.Errorf("smb: DFS links name more than %d servers", maxTargetServers)
	errManyShares  = fmt.Errorf("smb: DFS links name more than %d shares", maxTargetShares)
)

// namespace is what a program has reached from one session that it has dialled: the shares that it has mounted, and the referrals, servers
// and shares that DFS links have named, on whichever server the links are. The sessions with all these servers have the same namespace. It
// is bounded as a whole, since the servers choose the names.
type namespace struct {
	dialled *Session

	mu        sync.Mutex
	closed    bool                 // with the dialled session
	mounted   []*mount             // by the program, in the dialled session, unless unmounted
	referrals map[string]*referral // by the path of the link, as referralKey returns it
	sessions  map[string]*Session  // with other servers, by host in lower case
	targets   map[targetShare]*mount
	trying    map[*mount]int // how many goroutines connect one of targets
}

// targetShare is a share that DFS links have named.
type targetShare struct {
	s    *Session
	name string // in lower case
}

func targetOf(m *mount) targetShare { return targetShare{m.s, strings.ToLower(m.name)} }

// referralKey is path in the form in which servers compare paths.
func referralKey(path string) string { return strings.ToLower(strings.ToUpper(path)) }

// referral returns the cached referral for the longest link in path and the part of path behind it; nil when
// there is none or its lifetime has ended.
func (n *namespace) referral(path string) (*referral, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.referrals) == 0 {
		return nil, ""
	}
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '\\') {
		key := referralKey(path[:end])
		r := n.referrals[key]
		switch {
		case r == nil:
		case r.valid():
			return r, strings.Trim(path[end:], `\`)
		default:
			delete(n.referrals, key)
		}
	}
	return nil, ""
}

// addReferral caches the referral for the link in path; rest is the part of path behind the link.
func (n *namespace) addReferral(path, rest string, r *referral) {
	link := strings.TrimRight(strings.TrimSuffix(path, rest), `\`)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.referrals == nil || len(n.referrals) >= maxReferrals {
		n.referrals = make(map[string]*referral)
	}
	n.referrals[referralKey(link)] = r
}

// removeReferral removes a referral none of whose targets can be reached, so that the server is asked again.
func (n *namespace) removeReferral(r *referral) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.referrals, func(_ string, x *referral) bool { return x == r })
}

// tree returns the tree of a share that a DFS link on a server of from names, and connects it if necessary. What has never been connected
// is not kept, and so does not count: a link may name servers that do not exist.
func (n *namespace) tree(ctx context.Context, from *Session, host, share string, roots *rootCount) (*tree, error) {
	host, err := n.dialled.allowedReferral(host)
	if err != nil {
		return nil, err
	}
	m, err := n.target(from, host, share)
	if err != nil {
		return nil, err
	}
	t, err := m.tree(ctx, roots)
	n.tried(m)
	return t, err
}

// target returns the mount of a share that a DFS link on a server of from names. It is connected on first use, and another server is dialled
// then, at the port of from, for the same user. The caller reports to tried that it has connected the mount, or has failed to.
func (n *namespace) target(from *Session, host, share string) (*mount, error) {
	using, first := from.using(), n.dialled.using()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	key := strings.ToLower(host)
	to, added := n.sessions[key], false
	switch {
	case strings.EqualFold(host, using.host):
		to = from
	case strings.EqualFold(host, first.host):
		to = n.dialled
	case to == nil && len(n.sessions) >= maxTargetServers:
		return nil, errManyServers
	case to == nil:
		to, added = n.newSession(host, using.addr), true
	}
	if to == n.dialled { // what the program changes on one of its mounts is seen here
		for _, m := range n.mounted {
			if strings.EqualFold(m.name, share) {
				return m, nil
			}
		}
	}
	at := targetShare{to, strings.ToLower(share)}
	m := n.targets[at]
	if m == nil {
		if len(n.targets) >= maxTargetShares {
			return nil, errManyShares
		}
		if n.targets == nil {
			n.sessions, n.targets, n.trying = make(map[string]*Session), make(map[targetShare]*mount), make(map[*mount]int)
		}
		if added {
			n.sessions[key] = to
		}
		m = newMount(to, share)
		n.targets[at] = m
	}
	n.trying[m]++
	return m, nil
}

// newSession makes a session of the same user with another server, at the port of addr.
func (n *namespace) newSession(host, addr string) *Session {
	port := DefaultPort
	if _, p, err := net.SplitHostPort(addr); err == nil {
		port = p
	}
	cfg := n.dialled.cfg
	cfg.Host = host
	s := newSession(cfg, net.JoinHostPort(host, port))
	s.namespace, s.ownGUID = n, n.dialled.ownGUID
	return s
}

// tried removes a mount that target returned if it has never been connected and no other goroutine connects it, and likewise its
// session, unless that has to remember that its server refuses the user.
func (n *namespace) tried(m *mount) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if others := n.trying[m] - 1; others > 0 {
		n.trying[m] = others
		return
	}
	delete(n.trying, m)
	if n.targets[targetOf(m)] != m || m.connected() {
		return
	}
	delete(n.targets, targetOf(m))
	if m.s == n.dialled {
		return
	}
	if c, _ := m.s.current(); c != nil || m.s.loginRefusal() != nil {
		return
	}
	for at := range n.targets {
		if at.s == m.s {
			return
		}
	}
	maps.DeleteFunc(n.sessions, func(_ string, x *Session) bool { return x == m.s })
}

// add adds a share that the program has mounted.
func (n *namespace) add(m *mount) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mounted = append(n.mounted, m)
}

// remove removes a mount that was unmounted: the program's own, or one that links have named ([File.Share]). The next link that names its
// share makes another.
func (n *namespace) remove(m *mount) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mounted = slices.DeleteFunc(n.mounted, func(x *mount) bool { return x == m })
	if at := targetOf(m); n.targets[at] == m {
		delete(n.targets, at)
	}
}

// close removes a session that is being closed, and its mounts. It returns the sessions to close with it: those with other servers, if it is
// the dialled one. After the close of another one ([Share.Session]), the next link that names its server dials it again.
func (n *namespace) close(s *Session) (others map[string]*Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == n.dialled {
		others = n.sessions
		n.closed, n.sessions, n.targets, n.trying = true, nil, nil, nil
		return others
	}
	maps.DeleteFunc(n.sessions, func(_ string, x *Session) bool { return x == s })
	maps.DeleteFunc(n.targets, func(at targetShare, _ *mount) bool { return at.s == s })
	return nil
}
