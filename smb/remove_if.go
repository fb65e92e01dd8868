package smb

import (
	"context"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// RemoveIf removes the named file, symbolic link or empty directory, read-only ones too, if check returns nil. Otherwise it returns the
// error of check, and removes nothing. check gets a description as that of [Share.Lstat], and what it describes is what is removed: the file
// is open meanwhile, so that a file of another client that gets the name stays. check may be called more than once, also for another file.
func (s *Share) RemoveIf(name string, check func(fs.FileInfo) error) error {
	return pathError("remove", name, s.run(operation{kind: opRemoveIf, name: name, do: func(ctx context.Context, v view, remote string) error {
		return v.removeIf(ctx, remote, func(r *proto.CreateResponse) error {
			fi := statOf(name, r)
			if fi.attributes&proto.AttrReparsePoint != 0 && fi.tag == 0 {
				var err error
				if fi.tag, err = v.openTag(ctx, r.FileID); err != nil {
					return err
				}
			}
			return check(fi)
		})
	}}))
}

// Remove removes the file that f has opened, read-only or not, by the name at which f has found it. If the name is that of another file by
// now, which then stays, or of none, the error matches fs.ErrNotExist. The file is there for those who have it open, f among them, until all
// have closed it. f may be closed before if it was opened without os.O_TRUNC, or with os.O_EXCL; otherwise Remove may take its file for
// another one then.
func (f *File) Remove() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("remove", f.h.remove(ctx))
}

func (h *openFile) remove(ctx context.Context) error {
	id, err := h.fileID(ctx)
	open := err == nil && id != 0 // while it is, no other file has its id
	at := &Share{m: h.m, ctx: ctx, snapshot: h.snapshot}
	return at.runIn(ctx, operation{kind: opRemoveIf, name: h.remote, do: func(ctx context.Context, v view, remote string) error {
		return v.removeIf(ctx, remote, func(r *proto.CreateResponse) error {
			found := fileIdentityOf(r)
			if open && found.id == id || found == h.made {
				return nil
			}
			return errAnotherFile
		})
	}})
}

var errAnotherFile error = &classError{"the name is that of another file", fs.ErrNotExist}

// removeIf opens the file remote without following a link, and removes it by its handle if check returns nil.
func (v view) removeIf(ctx context.Context, remote string, check func(*proto.CreateResponse) error) error {
	err := v.removeChecked(ctx, remote, 0, check)
	if hasStatus(err, proto.StatusCannotDelete) { // it is read-only
		err = v.removeChecked(ctx, remote, proto.AccessWriteAttributes, check)
	}
	return err
}

// removeChecked is one attempt of removeIf. With the right to write attributes it removes a read-only file.
func (v view) removeChecked(ctx context.Context, remote string, further proto.Access, check func(*proto.CreateResponse) error) error {
	req := statRequest(remote)
	req.Access = proto.AccessDelete | proto.AccessReadAttributes | further
	req.Options = proto.OptionOpenReparsePoint
	req.Contexts.QueryOnDiskID = true
	r, _, err := v.create(ctx, req, nil)
	if err != nil {
		return err
	}
	set := func(class proto.InfoClass, body []byte) error {
		cl := v.Call(proto.CommandSetInfo)
		cl.Effect = v.effectOn(remote, "")
		return v.Do(ctx, cl, &proto.SetInfoRequest{Type: proto.InfoFile, Class: class, FileID: r.FileID, Info: body})
	}
	err = check(&r)
	if err == nil && further&proto.AccessWriteAttributes != 0 {
		err = set(proto.ClassBasic, modeBits(proto.AttrNormal))
	}
	if err == nil {
		err = set(proto.ClassDisposition, proto.AppendDelete(nil))
	}
	until, cancel := v.m.s.closing(ctx)
	defer cancel()
	if closeErr := v.closeID(until, r.FileID); err == nil {
		err = closeErr
	}
	return err
}

// openTag queries the tag of an open reparse point.
func (t *tree) openTag(ctx context.Context, id proto.FileID) (tag uint32, err error) {
	req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassAttributeTag, Output: 8, FileID: id}
	err = t.query(ctx, &req, func(b []byte) (err error) {
		_, tag, err = proto.DecodeAttributeTagInfo(b)
		return err
	})
	return tagOr(tag, err)
}
