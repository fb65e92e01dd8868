package smb

import (
	"bytes"
	"context"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// ExtendedAttributes reads all extended attributes of the named file (MS-FSCC 2.4.16).
func (s *Share) ExtendedAttributes(name string) (map[string][]byte, error) {
	var all map[string][]byte
	err := s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		all = map[string][]byte{}
		req := statRequest(remote)
		req.Access |= proto.AccessReadEA
		query := t.queryStep(proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassFullEA, Output: maxStreams})
		query.also = proto.StatusNoEAsOnFile
		return t.chain(ctx, req, func(calls []*conn.Call) error {
			if calls[1].Status != proto.StatusSuccess {
				return nil
			}
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			if err != nil {
				return t.Malformed(err)
			}
			list, err := proto.DecodeEAs(b)
			if err != nil {
				return t.Malformed(err)
			}
			for _, e := range list {
				all[e.Name] = bytes.Clone(e.Value)
			}
			return nil
		}, query)
	}})
	return all, pathError("attributes", name, err)
}

// SetExtendedAttribute sets an extended attribute of the named file; an empty value removes it. The key has 1
// to 255 bytes and the value at most 65,535; servers may allow less.
func (s *Share) SetExtendedAttribute(name, key string, value []byte) error {
	if key == "" || len(key) > 255 || len(value) > 65535 {
		return pathError("attributes", name, ErrName)
	}
	ea := proto.EA{Name: key, Value: value}
	err := s.run(operation{kind: opSet, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Access |= proto.AccessWriteEA
		return t.chain(ctx, req, nil, setStep(proto.ClassFullEA, ea.Append(nil)))
	}})
	return pathError("attributes", name, err)
}
