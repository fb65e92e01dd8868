package smb

import (
	"context"
	"math"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// snapshotFormat is how servers write the time of a snapshot, in UTC (MS-SMB2 2.2.32.2).
const snapshotFormat = "@GMT-2006.01.02-15.04.05"

// Snapshots lists the times of the share's snapshots ("previous versions"), in the
// server's order.
func (s *Share) Snapshots() ([]time.Time, error) {
	var list []time.Time
	err := s.run(operation{kind: opDescribe, name: "", do: func(ctx context.Context, t view, remote string) error {
		list = nil
		// The first answer contains the length of all names.
		size, err := t.snapshots(ctx, remote, 16, &list)
		if err == nil && size > 0 {
			_, err = t.snapshots(ctx, remote, 12+int(min(size, math.MaxInt32/2)), &list)
		}
		return err
	}})
	return list, pathError("snapshots", s.m.name, err)
}

// snapshots requests as many names of snapshots as fit in room, and returns the length of all of them in
// bytes.
func (t view) snapshots(ctx context.Context, remote string, room int, list *[]time.Time) (size uint32, err error) {
	if room > t.Conn().Terms().MaxTransact {
		return 0, ErrTooMany
	}
	req := statRequest(remote)
	req.Access |= proto.AccessReadData
	err = t.chain(ctx, req, func(calls []*conn.Call) error {
		r, err := proto.DecodeIoctlResponse(calls[1].Message())
		if err != nil {
			return t.Malformed(err)
		}
		var names []string
		if _, size, names, err = proto.DecodeSnapshots(r.Output); err != nil {
			return t.Malformed(err)
		}
		for _, name := range names {
			if when, err := time.Parse(snapshotFormat, name); err == nil {
				*list = append(*list, when)
			}
		}
		return nil
	}, t.ioctlStep(proto.IoctlRequest{Code: proto.FsctlEnumerateSnapshots, Output: uint32(room)}))
	return size, err
}

// At returns the share as it was at the time of a snapshot, one that [Share.Snapshots] lists: its files and
// directories can be listed and read. Servers refuse to change them. The zero time is the current version.
func (s *Share) At(when time.Time) *Share {
	then := *s
	then.snapshot = 0
	if !when.IsZero() {
		then.snapshot = proto.NewFiletime(when)
	}
	return &then
}
