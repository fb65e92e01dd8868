package smb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// referral is a server's answer with the targets of a DFS link (MS-DFSC 2.2.4).
type referral struct {
	targets []string // \server\share or a path below it, in the server's order

	expires atomic.Pointer[time.Time]
	inUse   atomic.Int64 // index of the target in use
}

// valid reports whether the lifetime of the referral has not ended.
func (r *referral) valid() bool { return time.Now().Before(*r.expires.Load()) }

// keep has the lifetime of the referral end after d.
func (r *referral) keep(d time.Duration) {
	expires := time.Now().Add(d)
	r.expires.Store(&expires)
}

// referred resolves a name that is behind a DFS link (MS-DFSC 3.1.4). It returns a tree on the target and the
// name as the target knows it. A referral is requested once in its lifetime; sessions with its targets are
// kept.
func (m *mount) referred(ctx context.Context, t *tree, remote string) (*tree, string, error) {
	path := `\` + t.with.host + `\` + t.m.name + `\` + remote
	names := m.s.namespace
	r, rest := names.referral(path)
	if r == nil {
		var err error
		if r, rest, err = t.refer(ctx, path); err != nil {
			if errors.As(err, new(*ResponseError)) && !errors.Is(err, ErrConnLost) {
				err = &lostError{errNoTarget, err}
			}
			return nil, "", err
		}
		names.addReferral(path, rest, r)
	}
	t2, inner, err := r.reach(ctx, m, new(rootCount))
	if err != nil {
		names.removeReferral(r)
		return nil, "", err
	}
	return t2, join(inner, rest), nil
}

var errNoTarget = errors.New("smb: no target of the DFS link can be reached")

// refer asks the server of t for the referral for path. rest is the part of path behind the link.
func (t *tree) refer(ctx context.Context, path string) (r *referral, rest string, err error) {
	cl := t.Call(proto.CommandIoctl)
	req := proto.IoctlRequest{
		Code: proto.FsctlDFSGetReferrals, FileID: proto.NoFileID(),
		Input: proto.AppendDFSReferralRequest(nil, path), Output: t.replyLimit(16 << 10),
	}
	cl.Expect = int(req.Output)
	if err := t.RoundTrip(ctx, cl, &req, proto.StatusBufferOverflow); err != nil {
		return nil, "", err
	}
	defer cl.Release()
	if r, rest, err = decodeReferral(cl, path); err != nil {
		return nil, "", t.Malformed(err)
	}
	return r, rest, nil
}

func decodeReferral(cl *conn.Call, path string) (*referral, string, error) {
	answer, err := proto.DecodeIoctlResponse(cl.Message())
	if err != nil {
		return nil, "", err
	}
	list, err := proto.DecodeReferrals(answer.Output)
	if err != nil {
		return nil, "", err
	}
	if int(list.Consumed)/2 > utf16Units(path) {
		return nil, "", conn.ProtocolError("a DFS link that ends behind the end of the name")
	}
	_, rest := cutUnits(path, int(list.Consumed)/2)
	r, lifetime := &referral{}, uint32(0)
	for list.Next() {
		x := list.Referral()
		if x.IsNameList {
			continue
		}
		if len(r.targets) == 0 || x.TTL < lifetime {
			lifetime = x.TTL
		}
		r.targets = append(r.targets, proto.DecodeUTF16(x.Target))
	}
	r.keep(time.Duration(lifetime) * time.Second)
	return r, strings.Trim(rest, `\`), list.Err()
}

// reach connects to a target, the one in use first, and returns its tree and the path in it. The targets are
// copies of one another: when one cannot be reached, the next one is used and stays in use.
func (r *referral) reach(ctx context.Context, m *mount, roots *rootCount) (*tree, string, error) {
	first := int(r.inUse.Load())
	err := errNoTarget
	for i := range r.targets {
		index := (first + i) % len(r.targets)
		t, inner, e := m.target(ctx, r.targets[index], roots)
		if e == nil {
			r.inUse.Store(int64(index))
			return t, inner, nil
		}
		err = errors.Join(err, e)
		if ctx.Err() != nil || errors.Is(e, errLinks) {
			break
		}
	}
	return nil, "", err
}

// target connects to \server\share\path and returns its tree and path. The path comes from the server and is
// checked like one of the user's.
func (m *mount) target(ctx context.Context, target string, roots *rootCount) (*tree, string, error) {
	parts := strings.SplitN(strings.Trim(target, `\`), `\`, 3)
	if len(parts) < 2 || !utf8.ValidString(target) {
		return nil, "", fmt.Errorf("%w: the DFS link leads to %q", ErrName, target)
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
	t, err := m.s.namespace.tree(ctx, m.s, parts[0], share, roots)
	return t, inner, err
}
