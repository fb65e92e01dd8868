package smb

import (
	"context"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// SecurityInfo is a set of parts of a security descriptor (MS-SMB2 2.2.37).
type SecurityInfo uint32

// Parts of a security descriptor. SACL needs a privilege on the server.
const (
	OwnerSecurity SecurityInfo = 1
	GroupSecurity SecurityInfo = 2
	DACLSecurity  SecurityInfo = 4
	SACLSecurity  SecurityInfo = 8
)

// maxDescriptor is the longest security descriptor, in bytes, that is requested.
const maxDescriptor = 65536

// SecurityDescriptor reads parts of the named file's security descriptor, in its
// self-relative form (MS-DTYP 2.4.6).
func (s *Share) SecurityDescriptor(name string, parts SecurityInfo) ([]byte, error) {
	var sd []byte
	req := proto.QueryInfoRequest{
		Type: proto.InfoSecurity, Output: maxDescriptor,
		Security: proto.SecurityInformation(parts),
	}
	err := s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		create := statRequest(remote)
		create.Access |= proto.AccessReadControl
		if parts&SACLSecurity != 0 {
			create.Access |= proto.AccessSystemSecurity
		}
		return t.chain(ctx, create, func(calls []*conn.Call) error {
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			if err != nil {
				return t.Malformed(err)
			}
			sd = append([]byte(nil), b...)
			return nil
		}, t.queryStep(req))
	}})
	return sd, pathError("security", name, err)
}

// SetSecurityDescriptor replaces parts of the named file's security descriptor with those of sd, which is
// self-relative.
func (s *Share) SetSecurityDescriptor(name string, parts SecurityInfo, sd []byte) error {
	if len(sd) > maxDescriptor {
		return pathError("security", name, fs.ErrInvalid)
	}
	err := s.run(operation{kind: opSet, name: name, do: func(ctx context.Context, t view, remote string) error {
		create := statRequest(remote)
		if parts&DACLSecurity != 0 {
			create.Access |= proto.AccessWriteDAC
		}
		if parts&(OwnerSecurity|GroupSecurity) != 0 {
			create.Access |= proto.AccessWriteOwner
		}
		if parts&SACLSecurity != 0 {
			create.Access |= proto.AccessSystemSecurity
		}
		return t.chain(ctx, create, nil, step{cmd: proto.CommandSetInfo, request: func(id proto.FileID) conn.Request {
			return &proto.SetInfoRequest{
				Type: proto.InfoSecurity, Security: proto.SecurityInformation(parts), FileID: id, Info: sd,
			}
		}})
	}})
	return pathError("security", name, err)
}
