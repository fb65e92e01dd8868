package smb

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Mkdir makes a directory. perm is for the server to decide.
func (s *Share) Mkdir(name string, perm fs.FileMode) error {
	return pathError("mkdir", name, s.mkdir(name))
}

func (s *Share) mkdir(name string) error {
	return s.resolveOnce(name, func(ctx context.Context, t *tree, remote string) error {
		req := statRequest(remote)
		req.Disposition, req.Options = proto.DispositionCreate, proto.OptionDirectory
		req.Attributes = proto.AttrDirectory
		return t.chain(ctx, req, nil)
	})
}

// MkdirAll makes a directory and those above it that do not exist. An existing
// directory is no error.
func (s *Share) MkdirAll(name string, perm fs.FileMode) error {
	remote, err := remoteName(name)
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
	err = s.mkdir(remote)
	if errors.Is(err, fs.ErrExist) { // somebody else was at it too
		if fi, err := s.stat(remote, 0); err == nil && fi.IsDir() {
			return nil
		}
	}
	return pathError("mkdir", name, err)
}

// Remove removes the named file, symbolic link or empty directory. One marked read-only
// goes too.
func (s *Share) Remove(name string) error {
	return pathError("remove", name, s.remove(name))
}

func (s *Share) remove(name string) error {
	err := s.delete(name)
	if hasStatus(err, proto.StatusCannotDelete) && s.modify(name, proto.ClassBasic, modeBits(proto.AttrNormal)) == nil {
		err = s.delete(name)
	}
	return err
}

func modeBits(attrs proto.Attributes) []byte {
	b := proto.BasicInfo{Attributes: attrs}
	return b.Append(nil)
}

func (s *Share) delete(name string) error {
	return s.resolveOnce(name, func(ctx context.Context, t *tree, remote string) error {
		req := statRequest(remote)
		req.Access = proto.AccessDelete | proto.AccessReadAttributes
		req.Options = proto.OptionOpenReparsePoint
		return t.chain(ctx, req, nil, setStep(proto.ClassDisposition, proto.AppendDelete(nil)))
	})
}

// setStep is a SET_INFO in a chain.
func setStep(class proto.InfoClass, body []byte) step {
	return step{cmd: proto.CommandSetInfo, req: &proto.SetInfoRequest{
		Type: proto.InfoFile, Class: class, FileID: proto.RelatedFileID(), Info: body,
	}}
}

// RemoveAll removes the named file or directory and all that is in it. One that does
// not exist is no error. Symbolic links are removed, not followed.
func (s *Share) RemoveAll(name string) error {
	if remote, err := remoteName(name); err != nil || remote == "" {
		return pathError("removeall", name, ErrName)
	}
	err := s.remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !hasStatus(err, proto.StatusDirectoryNotEmpty) {
		return pathError("removeall", name, err)
	}
	for e, lerr := range s.Entries(name) {
		if lerr != nil {
			if errors.Is(lerr, fs.ErrNotExist) {
				return nil
			}
			return lerr
		}
		if rerr := s.RemoveAll(name + `\` + e.Name()); rerr != nil {
			return rerr
		}
	}
	if err = s.remove(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return pathError("removeall", name, err)
}

// Rename moves oldname to newname, in place of a file that has that name, as os.Rename.
func (s *Share) Rename(oldname, newname string) error {
	return linkError("rename", oldname, newname, s.rename(oldname, proto.RenameInfo{Name: newname, Replace: true}))
}

// RenameNoReplace is Rename, failing with fs.ErrExist when newname exists.
func (s *Share) RenameNoReplace(oldname, newname string) error {
	return linkError("rename", oldname, newname, s.rename(oldname, proto.RenameInfo{Name: newname}))
}

func (s *Share) rename(oldname string, to proto.RenameInfo) error {
	remote, err := remoteName(to.Name)
	if err != nil {
		return err
	}
	to.Name = remote
	return s.resolveOnce(oldname, func(ctx context.Context, t *tree, from string) error {
		req := statRequest(from)
		req.Access = proto.AccessDelete | proto.AccessReadAttributes | proto.AccessSynchronize
		req.Options = proto.OptionOpenReparsePoint
		return t.chain(ctx, req, nil, setStep(proto.ClassRename, to.Append(nil)))
	})
}

// modify sets one structure of the named file, following links. Twice does no harm.
func (s *Share) modify(name string, class proto.InfoClass, body []byte) error {
	return s.resolve(name, func(ctx context.Context, t *tree, remote string) error {
		req := statRequest(remote)
		req.Access = proto.AccessWriteAttributes | proto.AccessReadAttributes | proto.AccessSynchronize
		if class == proto.ClassEndOfFile {
			req.Access |= proto.AccessWriteData
		}
		return t.chain(ctx, req, nil, setStep(class, body))
	})
}

// Truncate sets the length of the named file in bytes; what is added reads as zeros.
func (s *Share) Truncate(name string, size int64) error {
	if size < 0 {
		return pathError("truncate", name, errNegative)
	}
	return pathError("truncate", name, s.modify(name, proto.ClassEndOfFile, proto.AppendSize(nil, uint64(size))))
}

// Chtimes sets the times of the last access and last write of the named file, in steps
// of 100 ns. A zero time stays as it is.
func (s *Share) Chtimes(name string, atime, mtime time.Time) error {
	return pathError("chtimes", name, s.modify(name, proto.ClassBasic, timesInfo(atime, mtime)))
}

// Chmod marks the named file read-only, or not: the owner's write bit decides, and no
// other counts.
func (s *Share) Chmod(name string, mode fs.FileMode) error {
	fi, err := s.stat(name, 0)
	if err == nil {
		err = s.modify(name, proto.ClassBasic, modeInfo(fi, mode))
	}
	return pathError("chmod", name, err)
}

// ReadFile reads the whole named file.
func (s *Share) ReadFile(name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, pathError("read", name, errIsDirectory)
	}
	// The size is the server's word: memory is taken as bytes arrive.
	const trust = 8 << 20
	b := make([]byte, 0, min(fi.Size(), trust)+1)
	for {
		n, err := f.ReadAt(b[len(b):cap(b)], int64(len(b)))
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(int64(2*cap(b)), max(fi.Size()+1, int64(cap(b)+trust))))
			copy(grown, b)
			b = grown
		}
	}
}

// WriteFile writes data to the named file, making it or emptying it first.
func (s *Share) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := s.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
