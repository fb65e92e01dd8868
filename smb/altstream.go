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
// file's own data is not among them.
func (s *Share) Streams(name string) ([]StreamInfo, error) {
	var list []StreamInfo
	err := s.resolve(name, func(ctx context.Context, t *tree, remote string) error {
		list = nil
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
				if name != "" && kind == "$DATA" {
					list = append(list, StreamInfo{Name: name, Size: int64(x.Size)})
				}
			}
			return nil
		}, t.queryStep(proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassStream, Output: maxStreams}))
	})
	return list, pathError("streams", name, err)
}

// OpenStream opens the alternate data stream named stream of the named file, with the flags of
// [Share.OpenFile]. A file that does not exist is created together with its stream when flag has os.O_CREATE.
func (s *Share) OpenStream(name, stream string, flag int, perm fs.FileMode) (*File, error) {
	if err := checkStream(stream); err != nil {
		return nil, pathError("open", name+":"+stream, err)
	}
	f, err := s.openNamed(name, ":"+stream, flag, perm)
	if err != nil {
		return nil, pathError("open", name+":"+stream, err)
	}
	return f, nil
}

// RemoveStream removes an alternate data stream. The file itself stays.
func (s *Share) RemoveStream(name, stream string) error {
	err := checkStream(stream)
	if err == nil {
		err = s.resolveOnce(name, func(ctx context.Context, t *tree, remote string) error {
			return t.delete(ctx, remote+":"+stream)
		})
	}
	return pathError("remove", name+":"+stream, err)
}

// checkStream refuses what MS-FSCC 2.1.5.3 forbids in the name of a stream.
func checkStream(stream string) error {
	if stream == "" || strings.ContainsAny(stream, ":/\\\x00") || utf16Units(stream) > maxComponent {
		return ErrName
	}
	return nil
}
