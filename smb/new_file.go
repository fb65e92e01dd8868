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
// is zero, or so early that [Share.Chtimes] refuses it. The error matches fs.ErrExist when the name exists. Up to
// 64 KiB take one round trip where one WRITE may have as many (SessionInfo.MaxWrite), and other clients see the
// complete file or, until it is written, an empty one; of a longer file they may see a part. When writing fails the
// file is removed again, unless the connection was lost: then it may or may not exist. When the context ends while
// the server creates the file, it is removed as soon as the server answers, which may be after the return. A file that another client has
// given the name by then stays.
func (s *Share) WriteNewFile(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	return pathError("write", name, s.writeNew(name, data, perm, mtime))
}

func (s *Share) writeNew(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	if len(data) <= smallIO {
		err := s.run(operation{kind: opNewFile, name: name, do: func(ctx context.Context, t view, remote string) error {
			return t.newSmall(ctx, remote, data, perm, mtime)
		}})
		if err != errLarge {
			return err
		}
	}
	f, err := s.opened(opening{kind: opNewFile, name: name, flag: os.O_WRONLY | os.O_CREATE | os.O_EXCL, perm: perm})
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
	if err != nil && !errors.Is(err, ErrConnLost) {
		f.h.removeCreated()
	}
	return err
}

// newSmall creates the file remote in one frame.
func (t view) newSmall(ctx context.Context, remote string, data []byte, perm fs.FileMode, mtime time.Time) error {
	if len(data) > t.Conn().Terms().MaxWrite {
		return errLarge
	}
	create := openRequest(remote, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	create.Access |= proto.AccessWriteAttributes
	var further []step
	if !mtime.IsZero() {
		further = append(further, setStep(proto.ClassBasic, timesInfo(time.Time{}, mtime)))
	}
	_, err := t.writeSmall(ctx, create, data, further...)
	return err
}

// removeCreated removes the file, which this operation has created and closed.
func (h *openFile) removeCreated() {
	h.mu.Lock()
	t := h.t
	h.mu.Unlock()
	t.removeCreated(h.remote, h.made)
}

// fileIdentity identifies a file beside others that have had its name: file systems of Unix give a new file the id of one that was removed, and
// NTFS gives it the time of creation of one that was removed less than 15 s before.
type fileIdentity struct {
	time       proto.Filetime
	id, volume uint64 // zero: the server does not report them
}

func fileIdentityOf(r *proto.CreateResponse) fileIdentity {
	return fileIdentity{r.Times.Creation, r.Contexts.DiskFileID, r.Contexts.VolumeID}
}

// removeCreated removes the file remote, which this client has created, although the operation has failed or its caller has
// returned. If another file has the name by now, it stays.
func (t *tree) removeCreated(remote string, made fileIdentity) {
	ctx, cancel := t.m.s.closing(context.Background())
	defer cancel()
	view{tree: t, kind: opRemoveUnfinished}.removeIf(ctx, remote, isMade(made))
}
