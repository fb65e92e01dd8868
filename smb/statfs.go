package smb

import (
	"context"
	"fmt"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Statfs is the size and free space of a share.
type Statfs struct {
	BlockSize      int64 // bytes of an allocation unit
	TotalBytes     int64
	FreeBytes      int64 // free for all users together
	AvailableBytes int64 // free for this user
}

// Statfs queries the size and free space of the share's file system. When the server does not support that,
// the error matches ErrUnsupported.
func (s *Share) Statfs() (Statfs, error) {
	var st Statfs
	req := proto.QueryInfoRequest{
		Type: proto.InfoFilesystem, Class: proto.ClassFSFullSize, Output: 32,
	}
	err := s.run(operation{kind: opDescribe, name: "", do: func(ctx context.Context, t view, remote string) error {
		return t.chain(ctx, statRequest(remote), func(calls []*conn.Call) error {
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			if err != nil {
				return t.Malformed(err)
			}
			i, err := proto.DecodeFSFullSizeInfo(b)
			if err != nil {
				// impacket's server answers with a part of the structure.
				return fmt.Errorf("%w: %w", ErrUnsupported, err)
			}
			unit := i.UnitSize()
			st = Statfs{
				BlockSize: saturate(unit, 1), TotalBytes: saturate(i.TotalUnits, unit),
				FreeBytes: saturate(i.FreeUnits, unit), AvailableBytes: saturate(i.AvailableUnits, unit),
			}
			return nil
		}, t.queryStep(req))
	}})
	return st, pathError("statfs", s.m.name, err)
}

// saturate is a*b, or the largest int64 on overflow: the factors come from the server.
func saturate(a, b uint64) int64 {
	const most = 1<<63 - 1
	if b != 0 && a > most/b {
		return most
	}
	return int64(a * b)
}
