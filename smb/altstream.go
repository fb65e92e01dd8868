package smb

import (
	"context"
	"io/fs"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// maxStreams bounds a list of streams or of extended attributes, in bytes.
const maxStreams = 64 << 10

// StreamInfo is one named stream of a file, or of a directory.
type StreamInfo struct {
	Name string // without colons and type
	Size int64  // bytes
}

// Streams lists the alternate data streams of the named file (MS-FSCC 2.4.49). The
// file's own data is not among them. A stream whose name cannot be given to [Share.OpenStream] is left out: Streams then returns the
// others and an error that matches ErrName.
func (s *Share) Streams(name string) ([]StreamInfo, error) {
	var list []StreamInfo
	var leftOut *leftOutError
	err := s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		list, leftOut = nil, nil
		return t.chain(ctx, statRequest(remote), func(calls []*conn.Call) error {
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			if err != nil {
				return t.Malformed(err)
			}
			streams, err := proto.DecodeStreams(b)
			if err != nil {
				return t.Malformed(err)
			}
			for _, x := range streams {
				name, kind, _ := strings.Cut(strings.TrimPrefix(proto.DecodeUTF16(x.Name), ":"), ":")
				if name == "" || kind != "$DATA" {
					continue
				}
				if checkStream(name) != nil {
					leftOut = leftOut.and(name)
				} else {
					list = append(list, StreamInfo{Name: name, Size: int64(x.Size)})
				}
			}
			return nil
		}, t.queryStep(proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassStream, Output: maxStreams}))
	}})
	if err == nil && leftOut != nil {
		err = leftOut
	}
	return list, pathError("streams", name, err)
}

// OpenStream opens the alternate data stream named stream of the named file, with the flags of
// [Share.OpenFile]. A file that does not exist is created together with its stream when flag has os.O_CREATE.
func (s *Share) OpenStream(name, stream string, flag int, perm fs.FileMode) (*File, error) {
	if err := checkStream(stream); err != nil {
		return nil, pathError("open", name+":"+stream, err)
	}
	f, err := s.opened(opening{kind: kindOfOpening(flag), name: name, suffix: ":" + stream, flag: flag, perm: perm})
	if err != nil {
		return nil, pathError("open", name+":"+stream, err)
	}
	return f, nil
}

// RemoveStream removes an alternate data stream. The file itself stays.
func (s *Share) RemoveStream(name, stream string) error {
	err := checkStream(stream)
	if err == nil {
		err = s.run(operation{kind: opRemove, name: name, suffix: ":" + stream, do: deleteFile})
	}
	return pathError("remove", name+":"+stream, err)
}

// checkStream refuses what MS-FSCC 2.1.5.3 forbids in the name of a stream.
func checkStream(stream string) error {
	if !isEntryName(stream) || strings.Contains(stream, ":") {
		return ErrName
	}
	return nil
}
