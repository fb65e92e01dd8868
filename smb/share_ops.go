package smb

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Mkdir makes a directory, with the permissions perm where the server has the POSIX extensions ([Dialer.POSIX]). Otherwise perm is ignored:
// the server sets the permissions.
func (s *Share) Mkdir(name string, perm fs.FileMode) error {
	return pathError("mkdir", name, s.mkdir(name, perm))
}

func (s *Share) mkdir(name string, perm fs.FileMode) error {
	return s.run(operation{kind: opMkdir, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := statRequest(remote)
		req.Disposition, req.Options = proto.DispositionCreate, proto.OptionDirectory
		req.Attributes = proto.AttrDirectory
		req.Contexts.Mode = posixMode(perm)
		return t.chain(ctx, req, nil)
	}})
}

// MkdirAll makes a directory and the missing directories above it. An existing directory is no error.
func (s *Share) MkdirAll(name string, perm fs.FileMode) error {
	remote, err := s.remote(name)
	if err != nil {
		return pathError("mkdir", name, err)
	}
	if fi, err := s.stat(remote, 0); err == nil {
		if fi.IsDir() {
			return nil
		}
		return pathError("mkdir", name, errNotDirectory)
	}
	if dir, _ := split(remote); dir != "" {
		if err := s.MkdirAll(dir, perm); err != nil {
			return err
		}
	}
	err = s.mkdir(remote, perm)
	if errors.Is(err, fs.ErrExist) { // another client made it meanwhile
		if fi, err := s.stat(remote, 0); err == nil && fi.IsDir() {
			return nil
		}
	}
	return pathError("mkdir", name, err)
}

// Remove removes the named file, symbolic link or empty directory, read-only ones too.
func (s *Share) Remove(name string) error {
	return pathError("remove", name, s.remove(name))
}

func (s *Share) remove(name string) error { return s.removeBy(opRemove, opRemoveIf, name) }

// removeBy removes a file by an operation of the first kind and, if it is read-only, one of the second.
func (s *Share) removeBy(kind, readOnly opKind, name string) error {
	err := s.run(operation{kind: kind, name: name, do: deleteFile})
	if hasStatus(err, proto.StatusCannotDelete) {
		err = s.run(operation{kind: readOnly, name: name, do: func(ctx context.Context, v view, remote string) error {
			return v.removeReadOnly(ctx, remote, func(*proto.CreateResponse) error { return nil })
		}})
	}
	return err
}

func deleteFile(ctx context.Context, t view, remote string) error {
	return t.chain(ctx, removeRequest(remote), nil, removeStep())
}

// Rename moves oldname to newname and replaces a file that has that name, as os.Rename does. Servers refuse to replace a file that is
// open, Samba one that is open on the same connection, and those of Windows also a read-only one (MS-FSA): the error matches fs.ErrPermission.
// The file oldname may be open. Samba 4.17 drops the mark of a sparse file when it is renamed; Rename sets it again, with one more request,
// unless the connection is lost before.
// Samba 4.22 makes an empty file of a symbolic link that a client has made (its size is 0), and the target is lost. A link in a directory that
// is renamed stays. Rename would need another request for each file to know the target: make such a link anew with Readlink and
// SymlinkTimes, and remove the old one.
func (s *Share) Rename(oldname, newname string) error {
	return linkError("rename", oldname, newname, s.rename(oldname, proto.RenameInfo{Name: newname, Replace: true}))
}

// RenameNoReplace is Rename, but fails with fs.ErrExist when newname exists.
func (s *Share) RenameNoReplace(oldname, newname string) error {
	return linkError("rename", oldname, newname, s.rename(oldname, proto.RenameInfo{Name: newname}))
}

// Link makes newname another name of the file oldname (a hard link), as os.Link does. The error matches fs.ErrExist when newname exists,
// and ErrUnsupported where the server's disk has no such links.
func (s *Share) Link(oldname, newname string) error {
	return linkError("link", oldname, newname, s.giveName(opRename, oldname, proto.RenameInfo{Name: newname}, view.link))
}

func (s *Share) rename(oldname string, to proto.RenameInfo) error {
	return s.giveName(opRename, oldname, to, view.rename)
}

// giveName gives the file oldname the name to, in addition or instead. Links in the directories of both names are followed.
func (s *Share) giveName(kind opKind, oldname string, to proto.RenameInfo, give func(t view, ctx context.Context, from string, to *proto.RenameInfo) error) error {
	remote, err := s.remote(to.Name)
	if err != nil {
		return err
	}
	var start view
	return s.run(operation{kind: kind, name: oldname, do: func(ctx context.Context, t view, from string) error {
		located := start.tree != nil // a link led to another tree: the new name must be on that tree, too
		if !located {
			start, to.Name = t, remote
		} else if to.Name, err = s.locate(ctx, start, t, remote); err != nil {
			return err
		}
		err := give(t, ctx, from, &to)
		var refused *ResponseError
		if !errors.As(err, &refused) || refused.Command != proto.CommandSetInfo.String() || !refused.redirects() {
			return err
		}
		// The link is in the new name.
		if !located {
			if to.Name, err = s.locate(ctx, start, t, remote); err == nil {
				err = give(t, ctx, from, &to)
			}
		}
		return &finalError{err}
	}})
}

func renameRequest(from string) *proto.CreateRequest {
	req := statRequest(from)
	req.Access = proto.AccessDelete | proto.AccessReadAttributes | proto.AccessSynchronize
	req.Options = proto.OptionOpenReparsePoint
	return req
}

// renameStep is a SET_INFO in a chain that gives the file the name to.
func (t view) renameStep(to *proto.RenameInfo) step {
	to.POSIX = t.posix
	st := setStep(proto.ClassRename, to.Append(nil))
	st.target = to.Name
	return st
}

func (t view) rename(ctx context.Context, from string, to *proto.RenameInfo) error {
	req := renameRequest(from)
	req.Contexts.QueryOnDiskID = true // for markSparse
	var made fileIdentity
	var sparse bool
	err := t.chain(ctx, req, func(calls []*conn.Call) error {
		r, err := proto.DecodeCreateResponse(calls[0].Message())
		if err != nil {
			return t.Malformed(err)
		}
		made, sparse = fileIdentityOf(&r), r.Attributes&proto.AttrSparse != 0
		return nil
	}, t.renameStep(to))
	if err == nil && sparse {
		t.markSparse(ctx, to.Name, made) // the file is renamed, with or without the mark
	}
	return err
}

// link gives the file from the name to as well (MS-FSCC 2.4.28).
func (t view) link(ctx context.Context, from string, to *proto.RenameInfo) error {
	req := statRequest(from)
	req.Access = proto.AccessWriteAttributes | proto.AccessReadAttributes | proto.AccessSynchronize
	req.Options = proto.OptionOpenReparsePoint
	to.POSIX = t.posix
	st := setStep(proto.ClassLink, to.Append(nil))
	st.target = to.Name
	return t.chain(ctx, req, nil, st)
}

// markSparse marks a file as sparse that was renamed: Samba 4.17 drops the mark then, and reports no holes without it.
func (t view) markSparse(ctx context.Context, remote string, made fileIdentity) error {
	req := statRequest(remote)
	req.Access = proto.AccessWriteAttributes | proto.AccessReadAttributes
	req.Options = proto.OptionOpenReparsePoint
	return t.setOf(ctx, req, made, t.ioctlStep(proto.IoctlRequest{Code: proto.FsctlSetSparse, Input: []byte{1}}))
}

// locate follows the links in the directory of remote, starting at the tree start, and returns the name's
// form on the tree on. A file cannot be moved to another tree.
func (s *Share) locate(ctx context.Context, start, on view, remote string) (string, error) {
	dir, base := split(remote)
	var there view
	err := s.follow(ctx, start, dir, func(ctx context.Context, t view, dir string) error {
		there, remote = t, join(dir, base)
		t.kind = opDescribe
		return t.chain(ctx, statRequest(dir), nil)
	})
	if err == nil && there.tree != on.tree {
		err = syscall.EXDEV
	}
	return remote, err
}

// modify sets one structure of the named file, following links. It is safe to repeat.
func (s *Share) modify(kind opKind, name string, class proto.InfoClass, body []byte) error {
	return s.run(operation{kind: kind, name: name, do: func(ctx context.Context, t view, remote string) error {
		return t.setInfo(ctx, remote, 0, class, body)
	}})
}

// setRequest opens a file to set what it has besides data.
func setRequest(remote string) *proto.CreateRequest {
	req := statRequest(remote)
	req.Access |= proto.AccessWriteAttributes
	return req
}

// setInfo is modify on the tree. options are further ones of the CREATE.
func (t view) setInfo(ctx context.Context, remote string, options proto.CreateOptions, class proto.InfoClass, body []byte) error {
	req := setRequest(remote)
	req.Options = options
	if class == proto.ClassEndOfFile {
		req.Access |= proto.AccessWriteData
	}
	return t.chain(ctx, req, nil, setStep(class, body))
}

// Truncate sets the length of the named file in bytes. A part that is added reads as zeros.
func (s *Share) Truncate(name string, size int64) error {
	if size < 0 {
		return pathError("truncate", name, errNegative)
	}
	return pathError("truncate", name, s.modify(opTruncate, name, proto.ClassEndOfFile, proto.AppendSize(nil, uint64(size))))
}

// Chtimes sets the times of the last access and last write of the named file, in steps of 100 ns. A zero time
// leaves the stored one unchanged. For other times up to the start of 1601 (UTC), which SMB cannot express, the error
// matches fs.ErrInvalid and nothing is changed.
func (s *Share) Chtimes(name string, atime, mtime time.Time) error {
	if !storable(atime) || !storable(mtime) {
		return pathError("chtimes", name, errTooEarly)
	}
	return pathError("chtimes", name, s.modify(opSet, name, proto.ClassBasic, timesInfo(atime, mtime)))
}

// Lchtimes is Chtimes of a symbolic link itself.
func (s *Share) Lchtimes(name string, atime, mtime time.Time) error {
	if !storable(atime) || !storable(mtime) {
		return pathError("lchtimes", name, errTooEarly)
	}
	return pathError("lchtimes", name, s.run(operation{kind: opSet, name: name, do: func(ctx context.Context, t view, remote string) error {
		return t.setInfo(ctx, remote, proto.OptionOpenReparsePoint, proto.ClassBasic, timesInfo(atime, mtime))
	}}))
}

// LchtimesIf is [Share.Lchtimes] if check returns nil. Otherwise it returns the error of check, and changes nothing. check gets a description
// as that of [Share.Lstat], and what it describes is what is changed. check may be called more than once, also for another file.
func (s *Share) LchtimesIf(name string, atime, mtime time.Time, check func(fs.FileInfo) error) error {
	if !storable(atime) || !storable(mtime) {
		return pathError("lchtimes", name, errTooEarly)
	}
	return pathError("lchtimes", name, s.run(operation{kind: opSetByName, name: name, do: func(ctx context.Context, v view, remote string) error {
		req := setRequest(remote)
		req.Options = proto.OptionOpenReparsePoint
		req.Contexts.QueryOnDiskID = true
		look := v.described(ctx, name, check)
		return v.decide(ctx, req, func(r *proto.CreateResponse) (decision, error) {
			return decision{steps: []step{setStep(proto.ClassBasic, timesInfo(atime, mtime))}}, look(r)
		})
	}}))
}

// Chmod sets the permissions of the named file where the server has the POSIX extensions ([Dialer.POSIX]); Samba ignores the set-user-ID,
// set-group-ID and sticky bits. Otherwise it sets or clears the read-only attribute by the owner's write bit of mode, and the other bits
// are ignored.
func (s *Share) Chmod(name string, mode fs.FileMode) error {
	if s.m.s.cfg.POSIX {
		if done, err := s.chmod(name, mode); done || err != nil {
			return pathError("chmod", name, err)
		}
	}
	return pathError("chmod", name, s.run(operation{kind: opSetByName, name: name, do: func(ctx context.Context, t view, remote string) error {
		return t.decide(ctx, setRequest(remote), func(r *proto.CreateResponse) (decision, error) {
			return decision{steps: []step{setStep(proto.ClassBasic, modeInfo(statOf(name, r), mode))}}, nil
		})
	}}))
}
