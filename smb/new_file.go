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

// WriteNewFile creates the named file, writes data to it, and sets its last write time to mtime unless that
// is zero, or so early that [Share.Chtimes] refuses it. The error matches fs.ErrExist when the name exists. Up to
// 64 KiB take one round trip where one WRITE may have as many (SessionInfo.MaxWrite), and other clients see the
// complete file or, until it is written, an empty one; of a longer file they may see a part. When writing fails the
// file is removed again, unless the connection was lost: then it may or may not exist. When the context ends while
// the server creates the file, it is removed as soon as the server answers, which may be after the return.
func (s *Share) WriteNewFile(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	created, err := s.writeNew(name, data, perm, mtime)
	if err != nil && created && !errors.Is(err, ErrConnLost) {
		s.removeUnfinished(name)
	}
	return pathError("write", name, err)
}

// writeNew is WriteNewFile, but when writing fails and the server has answered that it created the file, the caller removes it. Where
// that is not known, the name may be that of another program's file.
func (s *Share) writeNew(name string, data []byte, perm fs.FileMode, mtime time.Time) (created bool, err error) {
	if len(data) <= smallIO {
		err := s.run(operation{kind: opNewFile, name: name, do: func(ctx context.Context, t view, remote string) (err error) {
			created, err = t.newSmall(ctx, remote, data, perm, mtime)
			return err
		}})
		if err != errLarge {
			return created, err
		}
	}
	f, err := s.opened(opening{kind: opNewFile, name: name, flag: os.O_WRONLY | os.O_CREATE | os.O_EXCL, perm: perm})
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && !mtime.IsZero() {
		err = f.Chtimes(time.Time{}, mtime)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return true, err
}

// newSmall creates the file remote in one frame. created is whether the server has answered that it did.
func (t view) newSmall(ctx context.Context, remote string, data []byte, perm fs.FileMode, mtime time.Time) (created bool, err error) {
	if len(data) > t.Conn().Terms().MaxWrite {
		return false, errLarge
	}
	create := openRequest(remote, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	create.Access |= proto.AccessWriteAttributes
	var further []step
	if !mtime.IsZero() {
		further = append(further, setStep(proto.ClassBasic, timesInfo(time.Time{}, mtime)))
	}
	_, err = t.writeSmall(ctx, create, data, further...)
	var refused *ResponseError
	if errors.As(err, &refused) {
		return refused.Command != proto.CommandCreate.String(), err
	}
	return err == nil || err == io.ErrShortWrite, err
}

// removeCreated removes a file that this client has created although the call that wanted it has returned.
func (t *tree) removeCreated(remote string) {
	ctx, cancel := t.m.s.closing(context.Background())
	defer cancel()
	on := view{tree: t, kind: opRemoveUnfinished}
	err := deleteFile(ctx, on, remote)
	if hasStatus(err, proto.StatusCannotDelete) && makeWritable(ctx, on, remote) == nil {
		deleteFile(ctx, on, remote)
	}
}
