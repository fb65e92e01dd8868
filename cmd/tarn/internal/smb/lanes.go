package smb

import (
	"context"
	"sync/atomic"

	client "github.com/tarn-go/tarn/smb"
)

// lanes are further connections to a share. A server does the work of one connection in one thread, or
// in one process as Samba does: small files, whose cost is that work alone, are copied faster over
// several connections.
type lanes struct {
	shares []*client.Share
	next   atomic.Uint32
}

// of is a lane, or the first share where there are no others.
func (l *lanes) of(first *client.Share) *client.Share {
	n := l.next.Add(1) % uint32(len(l.shares)+1)
	if n == 0 {
		return first
	}
	return l.shares[n-1]
}

const (
	filesPerLane = 256
	maxLanes     = 2
)

// widen opens further connections where a plan has many small files.
func (a *app) widen(ctx context.Context, p *plan) {
	small := map[*remote]int{}
	for _, j := range p.jobs {
		if j.present || !a.isWhole(j) {
			continue
		}
		for _, t := range []tree{j.from, j.to} {
			if r, ok := t.(*remote); ok {
				small[r]++
			}
		}
	}
	for r, n := range small {
		for len(r.lanes.shares)+1 < min(n/filesPerLane, maxLanes) {
			share, err := a.another(ctx, r.at)
			if err != nil {
				break // a server may refuse more connections; the existing ones are used
			}
			r.lanes.shares = append(r.lanes.shares, share)
		}
	}
}

// another mounts the location's share over a new connection.
func (a *app) another(ctx context.Context, l location) (*client.Share, error) {
	s, err := a.dial(ctx, l)
	if err != nil {
		return nil, err
	}
	a.lanes = append(a.lanes, s)
	share, err := s.Mount(ctx, l.share)
	if err != nil {
		return nil, err
	}
	return share.WithContext(ctx), nil
}
