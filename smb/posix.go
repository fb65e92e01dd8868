package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// POSIXStat is what a server with the POSIX extensions says of a file ([Dialer.POSIX]). A server that knows neither an owner nor a group
// reports the SID S-1-0-0, as Samba does for the directory above a share.
type POSIXStat struct {
	Mode   uint32 // permissions and the set-user-ID, set-group-ID and sticky bits, as in st_mode
	Links  uint32 // names of the file (hard links)
	Device uint32 // of entries of a listing and of File.Stat; otherwise zero
	Owner  string // SID, such as "S-1-5-88-1-1000"
	Group  string // SID
}

// Parts of SIDs whose last number is an id of Unix: of MS-NFS, which ksmbd uses, and of Samba.
const (
	sidNFSUser, sidNFSGroup     = "S-1-5-88-1-", "S-1-5-88-2-"
	sidSambaUser, sidSambaGroup = "S-1-22-1-", "S-1-22-2-"
)

// UID is the owner's id on the server; ok is false when its SID does not contain it, as that of a user in Samba's own database, or of a
// domain, does not.
func (p *POSIXStat) UID() (uid uint32, ok bool) { return idIn(p.Owner, sidNFSUser, sidSambaUser) }

// GID is UID for the group.
func (p *POSIXStat) GID() (gid uint32, ok bool) { return idIn(p.Group, sidNFSGroup, sidSambaGroup) }

// idIn is the number in sid behind one of prefixes.
func idIn(sid string, prefixes ...string) (uint32, bool) {
	for _, prefix := range prefixes {
		if text, ok := strings.CutPrefix(sid, prefix); ok {
			n, err := strconv.ParseUint(text, 10, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
}

func posixStat(a *proto.POSIXAttributes) *POSIXStat {
	if a == nil {
		return nil
	}
	return &POSIXStat{Mode: a.Mode & proto.ModePermissions, Links: a.Links, Device: a.Device, Owner: a.Owner.String(), Group: a.Group.String()}
}

// specialBits are the bits of st_mode above the permissions, and those of package fs for them.
func specialBits() [3]struct {
	posix uint32
	fs    fs.FileMode
} {
	return [...]struct {
		posix uint32
		fs    fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}
}

// posixMode are the permissions of mode in the form that is sent.
func posixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	for _, bit := range specialBits() {
		if mode&bit.fs != 0 {
			m |= bit.posix
		}
	}
	return m
}

// fileMode is the mode of a file with the extensions. kind is its type as its attributes state it, which holds where the mode has none.
func fileMode(a *proto.POSIXAttributes, kind fs.FileMode) fs.FileMode {
	mode := fs.FileMode(a.Mode & 0o777)
	for _, bit := range specialBits() {
		if a.Mode&bit.posix != 0 {
			mode |= bit.fs
		}
	}
	switch a.Type() {
	case proto.POSIXDirectory:
		return mode | fs.ModeDir
	case proto.POSIXSymlink:
		return mode | fs.ModeSymlink
	case proto.POSIXCharDevice:
		return mode | fs.ModeDevice | fs.ModeCharDevice
	case proto.POSIXBlockDevice:
		return mode | fs.ModeDevice
	case proto.POSIXFIFO:
		return mode | fs.ModeNamedPipe
	case proto.POSIXSocket:
		return mode | fs.ModeSocket
	}
	return mode | kind
}

// findPOSIX finds whether the server has the POSIX extensions for the tree, as Samba has for single shares: files of this session are
// opened with them then.
func (t *tree) findPOSIX(ctx context.Context) error {
	if !t.m.s.cfg.POSIX || !t.Conn().Terms().POSIX || t.Kind() != proto.ShareDisk {
		return nil
	}
	req := statRequest("")
	req.Contexts.POSIX = true
	err := view{tree: t, kind: opDescribeFile}.chain(ctx, req, func(calls []*conn.Call) error {
		r, err := proto.DecodeCreateResponse(calls[0].Message())
		if err != nil {
			return t.Malformed(err)
		}
		t.posix = r.Contexts.POSIX != nil
		return nil
	})
	if errors.As(err, new(*ResponseError)) && !errors.Is(err, ErrConnLost) {
		return nil
	}
	return err
}

// requestPOSIX has create open its file with the POSIX extensions. The mode says whether it may be written to, not the attribute.
func requestPOSIX(create *proto.CreateRequest) {
	create.Contexts.POSIX = true
	if create.Attributes == proto.AttrReadOnly {
		create.Attributes = proto.AttrNormal
	}
}

// entryClass is the class of entries to request from the tree: that of the extensions, or class.
func (t *tree) entryClass(class proto.DirClass) proto.DirClass {
	if t.posix {
		return proto.FilePOSIXInformation
	}
	return class
}

// modeStep is a SET_INFO in a chain that sets the permissions of a file with the extensions.
func modeStep(mode fs.FileMode) step {
	return step{cmd: proto.CommandSetInfo, request: func(id proto.FileID) conn.Request { return modeRequest(id, mode) }}
}

func modeRequest(id proto.FileID, mode fs.FileMode) *proto.SetInfoRequest {
	return &proto.SetInfoRequest{
		Type: proto.InfoSecurity, Security: proto.DACLSecurity, FileID: id, Info: proto.AppendModeDescriptor(nil, posixMode(mode)),
	}
}

// chmod sets the permissions of the named file where it has the extensions. done is false where it has not, and nothing was changed.
func (s *Share) chmod(name string, mode fs.FileMode) (done bool, err error) {
	err = s.run(operation{kind: opSet, name: name, do: func(ctx context.Context, t view, remote string) error {
		if done = t.posix; !done {
			return nil
		}
		req := statRequest(remote)
		req.Access |= proto.AccessWriteDAC
		return t.chain(ctx, req, nil, modeStep(mode))
	}})
	return done, err
}

// chmod sets the permissions of the open file, which was opened with the extensions. Samba refuses it on a handle that was opened again
// after a loss, which has them no more: then it is done by the name, if that is still the file's.
func (f *File) chmod(mode fs.FileMode) error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	err := f.h.chmod(ctx, mode)
	if !f.h.reopened.Load() || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return f.setByName(ctx, proto.AccessWriteDAC, func(id proto.FileID) *proto.SetInfoRequest { return modeRequest(id, mode) })
}

// setByName sends a SET_INFO on a handle of the file with the right access, which f may not have, if the name is still that of the open file.
func (f *File) setByName(ctx context.Context, access proto.Access, request func(proto.FileID) *proto.SetInfoRequest) error {
	id, err := f.h.openID(ctx)
	if err != nil {
		return err
	}
	return f.Share().runIn(ctx, operation{kind: opSetByName, name: f.h.name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Access |= access
		req.Contexts.QueryOnDiskID = true
		return t.decide(ctx, req, func(r *proto.CreateResponse) (decision, error) {
			if !t.posix || id == 0 || r.Contexts.DiskFileID != id {
				return decision{}, fmt.Errorf("%w: the open file has another name", ErrHandleLost)
			}
			return decision{steps: []step{{cmd: proto.CommandSetInfo, request: func(id proto.FileID) conn.Request { return request(id) }}}}, nil
		})
	}})
}

func (h *openFile) chmod(ctx context.Context, mode fs.FileMode) error {
	return h.run(ctx, opSetFile, func(t *tree, id proto.FileID) error {
		cl := t.Call(proto.CommandSetInfo)
		cl.Effect = h.effect(opSetFile)
		return t.Do(ctx, cl, modeRequest(id, mode))
	})
}

// Chown sets the owner and the group of the named file by their ids on the server, as os.Chown does; -1 leaves one as it is. Servers let
// few users do that: the error then matches fs.ErrPermission. It matches ErrUnsupported where the server has no POSIX extensions
// ([Dialer.POSIX]); [Share.SetSecurityDescriptor] sets owners by their SIDs there.
func (s *Share) Chown(name string, uid, gid int) error {
	return pathError("chown", name, s.chown(name, uid, gid))
}

func (s *Share) chown(name string, uid, gid int) error {
	request, err := ownerRequest(uid, gid)
	if err != nil {
		return err
	}
	return s.run(operation{kind: opSet, name: name, do: func(ctx context.Context, t view, remote string) error {
		if !t.posix {
			return errNoPOSIX
		}
		req := statRequest(remote)
		if uid == -1 && gid == -1 {
			return t.chain(ctx, req, nil) // the file must exist nevertheless
		}
		req.Access |= proto.AccessWriteOwner
		return t.chain(ctx, req, nil, step{cmd: proto.CommandSetInfo, request: func(id proto.FileID) conn.Request { return request(id) }})
	}})
}

// Chown is [Share.Chown] of the open file. If its name is that of another file by now, that stays as it is, and the error matches
// ErrHandleLost.
func (f *File) Chown(uid, gid int) error {
	request, err := ownerRequest(uid, gid)
	if err == nil && f.h.grants.POSIX == nil {
		err = errNoPOSIX
	}
	if err != nil || uid == -1 && gid == -1 {
		return f.wrap("chown", err)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("chown", f.setByName(ctx, proto.AccessWriteOwner, request))
}

// ownerRequest returns a function that makes the SET_INFO of an owner and a group; -1 leaves one as it is.
func ownerRequest(uid, gid int) (func(proto.FileID) *proto.SetInfoRequest, error) {
	var owner, group proto.SID
	var parts proto.SecurityInformation
	for _, x := range []struct {
		id    int
		sid   func(uint32) proto.SID
		to    *proto.SID
		parts proto.SecurityInformation
	}{{uid, proto.UnixUserSID, &owner, proto.OwnerSecurity}, {gid, proto.UnixGroupSID, &group, proto.GroupSecurity}} {
		switch {
		case x.id == -1:
		case x.id < 0 || int64(x.id) > math.MaxUint32:
			return nil, fs.ErrInvalid
		default:
			*x.to = x.sid(uint32(x.id))
			parts |= x.parts
		}
	}
	return func(id proto.FileID) *proto.SetInfoRequest {
		return &proto.SetInfoRequest{Type: proto.InfoSecurity, Security: parts, FileID: id, Info: proto.AppendOwnerDescriptor(nil, owner, group)}
	}, nil
}

var errNoPOSIX = fmt.Errorf("%w: the share has no POSIX extensions", ErrUnsupported)

// describePOSIX is describe for a file that has the extensions.
func (h *openFile) describePOSIX(ctx context.Context, kind opKind) (fi *info, err error) {
	err = h.run(ctx, kind, func(t *tree, id proto.FileID) error {
		req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassPOSIX, Output: t.replyLimit(1 << 10), FileID: id}
		return t.query(ctx, &req, func(b []byte) error {
			i, err := proto.DecodePOSIXInfo(b)
			if err == nil {
				fi = &info{
					name: baseName(h.name), size: int64(i.EndOfFile), allocation: int64(i.Allocation), times: i.Times, id: i.FileID,
					attributes: i.Attributes, tag: i.POSIX.ReparseTag, posix: i.POSIX,
				}
			}
			return err
		})
	})
	return fi, err
}
