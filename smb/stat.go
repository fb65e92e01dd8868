package smb

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// FileStat describes a file, as reported by the server; FileInfo.Sys returns a pointer to one.
type FileStat struct {
	FileName       string // without its directory
	EndOfFile      int64  // bytes
	AllocationSize int64  // bytes on the server's disk
	CreationTime   time.Time
	LastAccessTime time.Time
	LastWriteTime  time.Time
	ChangeTime     time.Time
	FileAttributes uint32 // MS-FSCC 2.6
	ReparseTag     uint32 // MS-FSCC 2.1.2.1; zero: not known, or none
	FileID         uint64 // unique on its volume; zero: not known. Of an entry of a listing: see Dialer.EntryIDs
	// POSIX is what a server with the POSIX extensions adds (Dialer.POSIX); nil: nothing.
	POSIX *POSIXStat
}

// info implements fs.FileInfo and fs.DirEntry. It has 88 bytes, a FileStat 152: listings hold many.
type info struct {
	name       string
	size       int64 // bytes
	allocation int64 // bytes
	times      proto.FileTimes
	id         uint64
	attributes proto.Attributes
	tag        uint32
	posix      *proto.POSIXAttributes // nil: the server reports none
}

var (
	_ fs.FileInfo = (*info)(nil)
	_ fs.DirEntry = (*info)(nil)
)

func (i *info) Name() string               { return i.name }
func (i *info) Size() int64                { return i.size }
func (i *info) ModTime() time.Time         { return i.times.LastWrite.Time() }
func (i *info) IsDir() bool                { return i.Mode().IsDir() }
func (i *info) Type() fs.FileMode          { return i.Mode().Type() }
func (i *info) Info() (fs.FileInfo, error) { return i, nil }
func (i *info) String() string             { return fs.FormatFileInfo(i) }

// Sys returns a new *FileStat.
func (i *info) Sys() any {
	return &FileStat{
		FileName:       i.name,
		EndOfFile:      i.size,
		AllocationSize: i.allocation,
		CreationTime:   i.times.Creation.Time(),
		LastAccessTime: i.times.LastAccess.Time(),
		LastWriteTime:  i.times.LastWrite.Time(),
		ChangeTime:     i.times.Change.Time(),
		FileAttributes: uint32(i.attributes),
		ReparseTag:     i.tag,
		FileID:         i.id,
		POSIX:          posixStat(i.posix),
	}
}

// Mode returns the file's mode where the server has the POSIX extensions. Otherwise it
// converts the server's attributes to mode bits; "read only" is the only permission among them. Reparse
// points have the modes that package os gives them on Windows: symbolic link; irregular, such as mount
// points; socket; and regular file or directory when only the storage of the data differs.
func (i *info) Mode() fs.FileMode {
	mode := i.attributeMode()
	if i.posix != nil {
		return fileMode(i.posix, mode.Type())
	}
	return mode
}

func (i *info) attributeMode() fs.FileMode {
	attrs, tag := i.attributes, i.tag
	mode := fs.FileMode(0o666)
	if attrs&proto.AttrReparsePoint == 0 {
		tag = 0
	}
	if tag == proto.ReparseTagSymlink {
		return fs.ModeSymlink | 0o777
	}
	if attrs&proto.AttrDirectory != 0 && !proto.IsNameSurrogate(tag) {
		mode |= fs.ModeDir | 0o111
	}
	switch {
	case tag == 0 || proto.IsTransparent(tag):
	case tag == proto.ReparseTagAFUnix:
		mode |= fs.ModeSocket
	default:
		mode |= fs.ModeIrregular
	}
	if attrs&proto.AttrReadOnly != 0 && attrs&proto.AttrDirectory == 0 {
		mode &^= 0o222
	}
	return mode
}

// statOf describes a file by its CREATE reply. name is the one that the program gave: behind a link, or when its characters are
// encoded, the file has another name on the server.
func statOf(name string, r *proto.CreateResponse) *info {
	i := &info{
		name: baseName(name), size: int64(r.EndOfFile), allocation: int64(r.Allocation),
		times: r.Times, attributes: r.Attributes, id: r.Contexts.DiskFileID, posix: r.Contexts.POSIX,
	}
	if i.posix != nil {
		i.tag = i.posix.ReparseTag
	}
	return i
}

// statRequest opens a file to describe it.
func statRequest(remote string) *proto.CreateRequest {
	return &proto.CreateRequest{
		Access:      proto.AccessReadAttributes | proto.AccessSynchronize,
		Share:       proto.ShareAll,
		Disposition: proto.DispositionOpen,
		Name:        remote,
	}
}

// Stat describes the named file, following symbolic links. Sys of the result is a
// *FileStat.
func (s *Share) Stat(name string) (fs.FileInfo, error) {
	fi, err := s.stat(name, 0)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return fi, nil
}

// Lstat is Stat without following a symbolic link.
func (s *Share) Lstat(name string) (fs.FileInfo, error) {
	fi, err := s.stat(name, proto.OptionOpenReparsePoint)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return fi, nil
}

func (s *Share) stat(name string, options proto.CreateOptions) (*info, error) {
	var fi *info
	err := s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Options = options
		req.Contexts.QueryOnDiskID = true
		return t.chain(ctx, req, func(calls []*conn.Call) error {
			r, err := proto.DecodeCreateResponse(calls[0].Message())
			if err != nil {
				return t.Malformed(err)
			}
			fi = statOf(name, &r)
			return nil
		})
	}})
	if err != nil {
		return nil, err
	}
	if fi.attributes&proto.AttrReparsePoint != 0 && fi.tag == 0 && options&proto.OptionOpenReparsePoint != 0 {
		fi.tag, err = s.reparseTag(name)
	}
	return fi, err
}

// reparseTag queries the tag of the named reparse point, which a CREATE reply does not contain.
func (s *Share) reparseTag(name string) (tag uint32, err error) {
	err = s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Options = proto.OptionOpenReparsePoint
		return t.chain(ctx, req, func(calls []*conn.Call) error {
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			if err == nil {
				_, tag, err = proto.DecodeAttributeTagInfo(b)
			}
			if err != nil {
				return t.Malformed(err)
			}
			return nil
		}, t.queryStep(proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassAttributeTag, Output: 8}))
	}})
	return tagOr(tag, err)
}

// tagOr is the result of a query of a tag: a server that does not support the query has no other reparse points than links.
func tagOr(tag uint32, err error) (uint32, error) {
	if errors.Is(err, ErrUnsupported) {
		return proto.ReparseTagSymlink, nil
	}
	return tag, err
}

// LongName returns the last component of the name that the server has for the named file. It is another one than in name where that has a
// short name (8.3), or another case. Samba lists files under short names that have names which Windows does not have, such as "aux.c". A
// symbolic link is not followed.
func (s *Share) LongName(name string) (string, error) {
	long, err := s.longName(name)
	return long, pathError("lstat", name, err)
}

func (s *Share) longName(name string) (long string, err error) {
	err = s.run(operation{kind: opDescribe, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Options = proto.OptionOpenReparsePoint
		return t.chain(ctx, req, func(calls []*conn.Call) error {
			b, err := proto.DecodeQueryInfoResponse(calls[1].Message())
			var path string
			if err == nil {
				path, err = proto.DecodeAllInfoPath(b)
			}
			if err != nil {
				return t.Malformed(err)
			}
			_, long = split(path)
			return nil
		}, t.queryStep(proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassAll, Output: 64 << 10}))
	}})
	if err == nil && !isEntryName(long) {
		return "", ErrName
	}
	return s.m.s.cfg.Names.local(long), err
}
