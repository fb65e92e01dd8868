package smb

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// findRoot asks the server of c whether the mount's share is a DFS root on other servers (MS-DFSC 3.1.4.2):
// either a domain's root, `\\domain\root`, asked of a domain controller, or a share that refers to others.
func (m *mount) findRoot(ctx context.Context, c *conn.Conn) (*referral, error) {
	if c.Terms().Capabilities&proto.CapDFS == 0 || strings.EqualFold(m.name, "IPC$") {
		return nil, errNoTarget
	}
	with := m.s.using()
	ipc, err := c.Connect(ctx, with.host, "IPC$")
	if err != nil {
		return nil, err
	}
	t := &tree{Tree: ipc, m: m, with: with}
	defer t.Disconnect(ctx)
	own := `\` + with.host + `\` + m.name
	r, rest, err := t.refer(ctx, own)
	if err != nil {
		return nil, err
	}
	r.targets = slices.DeleteFunc(r.targets, func(target string) bool {
		// The target may be neither this share, which the server does not have, nor a directory.
		target = `\` + strings.Trim(target, `\`)
		return strings.EqualFold(target, own) || strings.Count(target, `\`) != 2
	})
	if len(r.targets) == 0 || rest != "" {
		return nil, errNoTarget
	}
	return r, nil
}

// rootCount counts the DFS roots on the way to one tree.
type rootCount struct{ n int }

// add counts one more root. A target of a root may be another root, also one that was passed before.
func (c *rootCount) add() error {
	if c.n++; c.n > maxLinks {
		return errLinks
	}
	return nil
}

// rootRetry is how long a root whose lifetime has ended is used before its server, which cannot be reached, is asked again.
const rootRetry = time.Minute

// rootTree returns the tree of a target of the mount's DFS root. When no target can be reached, the next call asks for the referral
// again.
func (m *mount) rootTree(ctx context.Context, r *referral, roots *rootCount) (*tree, error) {
	if err := roots.add(); err != nil {
		return nil, err
	}
	t, _, err := r.reach(ctx, m, roots)
	if err != nil && ctx.Err() == nil {
		r.keep(0)
	}
	return t, err
}
