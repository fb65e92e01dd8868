package smb

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
)

// Bounds of linkTargets. None is forgotten to make room: files may be open there.
const (
	maxTargetServers = 1000
	maxTargetShares  = 4096
)

var (
	errManyServers = fmt.Errorf("smb: DFS links name more than %d servers", maxTargetServers)
	errManyShares  = fmt.Errorf("smb: DFS links name more than %d shares", maxTargetShares)
)

// linkTargets are the servers and shares that DFS links have named, on whichever server the links are. They belong to the session
// that the program has dialled, and are bounded together, since the servers choose the names.
type linkTargets struct {
	sessions map[string]*Session // with other servers, by host in lower case
	mounts   map[targetShare]*mount
	trying   map[*mount]int // how many goroutines connect one of mounts
}

type targetShare struct {
	s    *Session
	name string // in lower case
}

func targetOf(m *mount) targetShare { return targetShare{m.s, strings.ToLower(m.name)} }

// linkedTree returns the tree of a share that a DFS link of s names, and connects it if necessary. What has never been connected is
// not kept, and so does not count: a link may name servers that do not exist.
func (s *Session) linkedTree(ctx context.Context, host, share string, passed *way) (*tree, error) {
	host, err := s.origin.allowedReferral(host)
	if err != nil {
		return nil, err
	}
	m, err := s.linked(host, share)
	if err != nil {
		return nil, err
	}
	t, err := m.tree(ctx, passed)
	s.origin.tried(m)
	return t, err
}

// linked returns the mount of a share that a DFS link of s names. It is connected on first use, and another server is dialled then,
// at the port of s, for the same user. The caller reports to tried that it has connected the mount, or has failed to.
func (s *Session) linked(host, share string) (*mount, error) {
	o := s.origin
	using, first := s.using(), o.using()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrClosed
	}
	l, key := &o.linkTargets, strings.ToLower(host)
	to, added := l.sessions[key], false
	switch {
	case strings.EqualFold(host, using.host):
		to = s
	case strings.EqualFold(host, first.host):
		to = o
	case to == nil && len(l.sessions) >= maxTargetServers:
		return nil, errManyServers
	case to == nil:
		to, added = s.with(host, using.addr), true
	}
	if to == o { // one of the program's mounts, so that what it changes there is seen here
		for _, m := range o.mounts {
			if strings.EqualFold(m.name, share) {
				return m, nil
			}
		}
	}
	at := targetShare{to, strings.ToLower(share)}
	m := l.mounts[at]
	if m == nil {
		if len(l.mounts) >= maxTargetShares {
			return nil, errManyShares
		}
		if l.mounts == nil {
			l.sessions, l.mounts, l.trying = make(map[string]*Session), make(map[targetShare]*mount), make(map[*mount]int)
		}
		if added {
			l.sessions[key] = to
		}
		m = newMount(to, share)
		l.mounts[at] = m
	}
	l.trying[m]++
	return m, nil
}

// tried removes a mount that linked returned if it has never been connected and no other goroutine connects it, and likewise its
// session, unless that has to remember that its server refuses the user.
func (s *Session) tried(m *mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.linkTargets
	if n := l.trying[m]; n > 1 {
		l.trying[m] = n - 1
		return
	}
	delete(l.trying, m)
	if l.mounts[targetOf(m)] != m || m.connected() {
		return
	}
	delete(l.mounts, targetOf(m))
	if m.s == s {
		return
	}
	if c, _ := m.s.current(); c != nil || m.s.loginRefusal() != nil {
		return
	}
	for at := range l.mounts {
		if at.s == m.s {
			return
		}
	}
	maps.DeleteFunc(l.sessions, func(_ string, x *Session) bool { return x == m.s })
}

// forgetLinked removes a mount that was unmounted through a file on it ([File.Share]): the next link that names the share makes
// another.
func (s *Session) forgetLinked(m *mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := targetOf(m); s.linkTargets.mounts[at] == m {
		delete(s.linkTargets.mounts, at)
	}
}

// forgetLinkedSession removes a session that was closed through a file of it ([Share.Session]), and its mounts: the next link that
// names the server dials it again.
func (s *Session) forgetLinkedSession(linked *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.linkTargets.sessions, func(_ string, x *Session) bool { return x == linked })
	maps.DeleteFunc(s.linkTargets.mounts, func(at targetShare, _ *mount) bool { return at.s == linked })
}

// with makes a session of the same user with another server, at the port of addr.
func (s *Session) with(host, addr string) *Session {
	port := DefaultPort
	if _, p, err := net.SplitHostPort(addr); err == nil {
		port = p
	}
	cfg := s.cfg
	cfg.Host = host
	to := newSession(cfg, net.JoinHostPort(host, port))
	to.origin, to.ownGUID = s.origin, s.ownGUID
	return to
}
