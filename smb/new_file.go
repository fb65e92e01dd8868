package smb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// WriteNewFile creates the named file, writes data to it, and sets its last write time to mtime unless that
// is zero. The error matches fs.ErrExist when the name exists. Up to 64 KiB take one round trip where one
// WRITE may have as many (SessionInfo.MaxWrite), and other clients see the complete file or, until it is
// written, an empty one; of a longer file they may see a part. When writing fails the file is removed
// again, unless the connection was lost: then it may or may not exist.
func (s *Share) WriteNewFile(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	err := s.writeNew(name, data, perm, mtime)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrConnLost) && !errors.Is(err, ErrName) {
		var refused *ResponseError
		if !errors.As(err, &refused) || refused.Command != proto.CommandCreate.String() {
			s.removeUnfinished(name)
		}
	}
	return pathError("write", name, err)
}

// writeNew is WriteNewFile, but the caller removes the file when writing fails.
func (s *Share) writeNew(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	if len(data) <= smallIO {
		err := s.resolveOnce(name, func(ctx context.Context, t *tree, remote string) error {
			return t.newSmall(ctx, remote, data, perm, mtime)
		})
		if err != errLarge {
			return err
		}
	}
	f, err := s.openFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && !mtime.IsZero() {
		err = f.Chtimes(time.Time{}, mtime)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// newSmall creates the file remote in one frame.
func (t *tree) newSmall(ctx context.Context, remote string, data []byte, perm fs.FileMode, mtime time.Time) error {
	if len(data) > t.Conn().Terms().MaxWrite {
		return errLarge
	}
	create := openRequest(remote, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	create.Access |= proto.AccessWriteAttributes
	var further []step
	if !mtime.IsZero() {
		further = append(further, setStep(proto.ClassBasic, timesInfo(time.Time{}, mtime)))
	}
	defer t.m.s.streams.changed(t.m, remote)
	return t.writeSmall(ctx, create, data, further...)
}
