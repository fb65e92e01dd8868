//go:build linux || darwin || freebsd

package smb

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	client "github.com/tarn-go/tarn/smb"
)

// AllocatedRanges returns the ranges between off and off+n that are no holes.
func (f localFile) AllocatedRanges(off, n int64) (list []client.Range, err error) {
	for end := off + n; off < end; {
		from, err := f.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) || err == nil && from >= end { // a hole up to the end
			break
		}
		if err != nil {
			return nil, err
		}
		to, err := f.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if len(list) == mostRanges {
			return nil, client.ErrTooMany
		}
		off = min(to, end)
		list = append(list, client.Range{Offset: from, Length: off - from})
	}
	return list, nil
}

// mostRanges bounds the memory that one list takes, to 64 MiB: as many as package smb accepts from a server.
const mostRanges = client.DefaultMaxEntries

// SetSparse has nothing to do: what is not written is a hole.
func (f localFile) SetSparse() error { return nil }
