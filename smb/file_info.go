package smb

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// query runs a QUERY_INFO on an open file and passes the structure to use, which must not keep it.
func (t *tree) query(ctx context.Context, req *proto.QueryInfoRequest, use func([]byte) error) error {
	cl := t.Call(proto.CommandQueryInfo)
	cl.Expect = int(req.Output)
	if err := t.RoundTrip(ctx, cl, req); err != nil {
		return err
	}
	defer cl.Release()
	b, err := proto.DecodeQueryInfoResponse(cl.Message())
	if err == nil {
		err = use(b)
	}
	if err != nil {
		return t.Malformed(err)
	}
	return nil
}

// set runs a SET_INFO on the file.
func (h *openFile) set(ctx context.Context, kind opKind, class proto.InfoClass, body []byte) error {
	return h.run(ctx, kind, func(t *tree, id proto.FileID) error {
		cl := t.Call(proto.CommandSetInfo)
		cl.Effect = h.effect(kind)
		return t.Do(ctx, cl, &proto.SetInfoRequest{Type: proto.InfoFile, Class: class, FileID: id, Info: body})
	})
}

func (h *openFile) stat(ctx context.Context) (*info, error) { return h.describe(ctx, opQueryFile) }

// describe is stat as an operation of the kind.
func (h *openFile) describe(ctx context.Context, kind opKind) (*info, error) {
	if h.grants.POSIX != nil {
		fi, err := h.describePOSIX(ctx, kind)
		if !errors.Is(err, ErrUnsupported) && !hasStatus(err, proto.StatusInvalidLevel) { // a file that was opened again may have lost them
			if err == nil {
				h.length.Store(fi.size)
			}
			return fi, err
		}
	}
	var r proto.CreateResponse
	err := h.run(ctx, kind, func(t *tree, id proto.FileID) error {
		req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassNetworkOpen, Output: 56, FileID: id}
		return t.query(ctx, &req, func(b []byte) error {
			i, err := proto.DecodeNetworkOpenInfo(b)
			r.Times, r.Allocation, r.EndOfFile, r.Attributes = i.Times, i.Allocation, i.EndOfFile, i.Attributes
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	h.length.Store(int64(r.EndOfFile))
	return statOf(h.name, &r), nil
}

// size is the file's length.
func (h *openFile) size(ctx context.Context) (int64, error) {
	fi, err := h.stat(ctx)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Stat describes the open file. Sys of the result is a *FileStat.
func (f *File) Stat() (fs.FileInfo, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	fi, err := f.h.describe(ctx, opDescribeFile)
	if err != nil {
		return nil, f.wrap("stat", err)
	}
	return fi, nil
}

// change sets one structure of the open file.
func (f *File) change(op string, class proto.InfoClass, body []byte) error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap(op, f.h.set(ctx, opSetFile, class, body))
}

// Truncate sets the file's length in bytes. A part that is added reads as zeros.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return f.wrap("truncate", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("truncate", f.h.setLength(ctx, size))
}

// setLength sets the file's length in bytes.
func (h *openFile) setLength(ctx context.Context, size int64) error {
	err := h.set(ctx, opTruncateFile, proto.ClassEndOfFile, proto.AppendSize(nil, uint64(size)))
	if err == nil {
		h.length.Store(size)
	}
	return err
}

// Chtimes sets the times of the last access and the last write, in steps of 100 ns. A zero time leaves the stored one
// unchanged. For other times up to the start of 1601 (UTC), which SMB cannot express, the error matches
// fs.ErrInvalid and nothing is changed.
func (f *File) Chtimes(atime, mtime time.Time) error {
	if !storable(atime) || !storable(mtime) {
		return f.wrap("chtimes", errTooEarly)
	}
	return f.change("chtimes", proto.ClassBasic, timesInfo(atime, mtime))
}

// SetAttributes sets the file's time of creation, in steps of 100 ns, and its attributes (MS-FSCC 2.6): those that programs set, such as
// read-only, hidden, system and archive; the others, such as directory, are ignored, so that FileStat.FileAttributes of another file may be
// given. A zero time and attributes of zero leave what is stored; 0x80, normal, clears. Servers may store neither. For other times up to
// the start of 1601 (UTC) the error matches fs.ErrInvalid and nothing is changed.
func (f *File) SetAttributes(created time.Time, attributes uint32) error {
	if !storable(created) {
		return f.wrap("setattributes", errTooEarly)
	}
	b := proto.BasicInfo{}
	b.Times.Creation = proto.NewFiletime(created)
	if attributes != 0 {
		b.Attributes = settable(proto.Attributes(attributes))
	}
	return f.change("setattributes", proto.ClassBasic, b.Append(nil))
}

// settable are those of a file's attributes that SET_INFO may have.
func settable(a proto.Attributes) proto.Attributes {
	a &= proto.AttrReadOnly | proto.AttrHidden | proto.AttrSystem | proto.AttrArchive | proto.AttrTemporary | proto.AttrOffline | proto.AttrNotIndexed
	if a == 0 {
		return proto.AttrNormal
	}
	return a
}

// Chmod sets the file's permissions where the server has the POSIX extensions ([Dialer.POSIX]). Otherwise it
// sets or clears the read-only attribute by the owner's write bit of mode, and the other bits are ignored.
func (f *File) Chmod(mode fs.FileMode) error {
	if f.h.grants.POSIX != nil {
		return f.wrap("chmod", f.chmod(mode))
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return f.change("chmod", proto.ClassBasic, modeInfo(fi.(*info), mode))
}

var errTooEarly error = &classError{"time before 1601", fs.ErrInvalid}

// storable reports whether a request to set a file's time to t does what it says: a time of 0 means that the stored one
// remains (MS-FSCC 2.4.7).
func storable(t time.Time) bool { return t.IsZero() || proto.NewFiletime(t) != 0 }

func timesInfo(atime, mtime time.Time) []byte {
	b := proto.BasicInfo{}
	b.Times.LastAccess, b.Times.LastWrite = proto.NewFiletime(atime), proto.NewFiletime(mtime)
	return b.Append(nil)
}

func modeInfo(i *info, mode fs.FileMode) []byte {
	attrs := i.attributes &^ (proto.AttrReadOnly | proto.AttrNormal)
	if mode&0o200 == 0 {
		attrs |= proto.AttrReadOnly
	}
	b := proto.BasicInfo{Attributes: settable(attrs)}
	return b.Append(nil)
}
