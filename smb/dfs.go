package smb

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// referred asks where a name lives that DFS has moved elsewhere (MS-DFSC 3.1.4), and
// returns a tree there with the name's form in it. Targets are tried in the server's
// order; the sessions are kept for the next time.
func (m *mount) referred(ctx context.Context, t *tree, remote string) (*tree, string, error) {
	path := `\` + m.s.host + `\` + t.share + `\` + remote
	cl := t.call(proto.CommandIoctl)
	cl.expect = 16 << 10
	req := proto.IoctlRequest{
		Code: proto.FsctlDFSGetReferrals, FileID: proto.NoFileID(),
		Input: proto.AppendDFSReferralRequest(nil, path), Output: 16 << 10,
	}
	if err := t.roundTrip(ctx, cl, &req, proto.StatusBufferOverflow); err != nil {
		return nil, "", err
	}
	targets, rest, err := referrals(cl, path)
	cl.release()
	if err != nil {
		return nil, "", t.malformed(err)
	}
	err = errNoTarget
	for _, target := range targets {
		t2, inner, e := m.target(ctx, target)
		if e == nil {
			return t2, join(inner, rest), nil
		}
		err = errors.Join(err, e)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", err
}

var errNoTarget = errors.New("smb: no target of the DFS link can be reached")

// referrals reads the targets out of a reply, and what of path lies behind the link.
func referrals(cl *call, path string) (targets []string, rest string, err error) {
	r, err := proto.DecodeIoctlResponse(cl.message())
	if err != nil {
		return nil, "", err
	}
	list, err := proto.DecodeReferrals(r.Output)
	if err != nil {
		return nil, "", err
	}
	if int(list.Consumed)/2 > utf16Units(path) {
		return nil, "", protocolError("a DFS link behind the end of the name")
	}
	_, rest = cutUnits(path, int(list.Consumed)/2)
	for list.Next() {
		if x := list.Referral(); !x.IsNameList {
			targets = append(targets, proto.DecodeUTF16(x.Target))
		}
	}
	return targets, strings.Trim(rest, `\`), list.Err()
}

// target connects \server\share\path and returns its tree and path. The path is the
// server's word, and checked like the user's.
func (m *mount) target(ctx context.Context, target string) (*tree, string, error) {
	parts := strings.SplitN(strings.Trim(target, `\`), `\`, 3)
	if len(parts) < 2 {
		return nil, "", ErrName
	}
	share, err := shareName(parts[1])
	if err != nil {
		return nil, "", err
	}
	inner := ""
	if len(parts) == 3 {
		if inner, err = remoteName(parts[2]); err != nil {
			return nil, "", err
		}
	}
	s := m.s
	if !strings.EqualFold(parts[0], s.host) {
		if s, err = m.s.other(parts[0]); err != nil {
			return nil, "", err
		}
	}
	t, err := s.shareTree(ctx, share)
	return t, inner, err
}

// other is a session with another server for the same user, dialled on its first use at
// the port of this one.
func (s *Session) other(host string) (*Session, error) {
	port := DefaultPort
	if _, p, err := net.SplitHostPort(s.addr); err == nil {
		port = p
	}
	addr := net.JoinHostPort(host, port)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	o := s.others[addr]
	if o == nil {
		cfg := s.cfg
		cfg.Host = host
		o = newSession(cfg, addr)
		if s.others == nil {
			s.others = make(map[string]*Session)
		}
		s.others[addr] = o
	}
	return o, nil
}

// shareTree is a tree of the session for the share, connected on its first use.
func (s *Session) shareTree(ctx context.Context, share string) (*tree, error) {
	s.mu.Lock()
	var found *mount
	for _, m := range s.mounts {
		if strings.EqualFold(m.name, share) {
			found = m
		}
	}
	s.mu.Unlock()
	if found == nil {
		sh, err := s.Mount(ctx, share)
		if err != nil {
			return nil, err
		}
		found = sh.m
	}
	return found.tree(ctx)
}
