package smb

import (
	"fmt"
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
}

type targetShare struct {
	s    *Session
	name string // in lower case
}

// linked returns the mount of a share that a DFS link of s names. It is connected on first use, and another server is dialled then,
// at the port of s, for the same user.
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
	if m != nil {
		return m, nil
	}
	if len(l.mounts) >= maxTargetShares {
		return nil, errManyShares
	}
	if l.mounts == nil {
		l.sessions, l.mounts = make(map[string]*Session), make(map[targetShare]*mount)
	}
	if added {
		l.sessions[key] = to
	}
	m = newMount(to, share)
	l.mounts[at] = m
	return m, nil
}

// forgetLinked removes a mount that was unmounted through a file on it ([File.Share]): the next link that names the share makes
// another.
func (s *Session) forgetLinked(m *mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := (targetShare{m.s, strings.ToLower(m.name)}); s.linkTargets.mounts[at] == m {
		delete(s.linkTargets.mounts, at)
	}
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
	to.origin = s.origin
	return to
}
