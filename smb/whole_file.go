package smb

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// smallIO is how many bytes of a file are moved in one frame with the requests that open and close it: as
// many as one credit allows.
const smallIO = 64 << 10

// ReadFile reads all of the named file. Up to 64 KiB take one round trip.
func (s *Share) ReadFile(name string) ([]byte, error) {
	b, _, err := s.readSmall(name)
	switch err {
	case ErrChanged:
		err = nil // as os.ReadFile
	case errLarge:
		b, _, err = s.readLarge(name, readOnly)
	}
	return b, pathError("read", name, err)
}

// ReadFileInfo is ReadFile, and also describes the file as it was after its last byte was read. The error is
// ErrChanged when the file's length or last write time shows that it was written to meanwhile: the bytes may
// then mix two versions of the file.
func (s *Share) ReadFileInfo(name string) ([]byte, fs.FileInfo, error) {
	b, fi, err := s.readSmall(name)
	if err == errLarge {
		b, fi, err = s.readLarge(name, (*handle).stillAsOpened)
	}
	if fi == nil {
		return b, nil, pathError("read", name, err)
	}
	return b, fi, pathError("read", name, err)
}

// errLarge is returned when a file does not fit in one frame. Nothing has been written then, and the caller moves the file in
// as many requests as it takes: only a connection knows how much one WRITE may have.
var errLarge = errors.New("smb: the file is larger than one frame")

// readSmall reads a file with CREATE, READ and CLOSE in one frame.
func (s *Share) readSmall(name string) (data []byte, fi *info, err error) {
	err = s.run(operation{kind: opReadFile, name: name, do: func(ctx context.Context, t view, remote string) error {
		n := min(smallIO, t.Conn().Terms().MaxRead)
		create := openRequest(remote, os.O_RDONLY, 0)
		create.Options |= proto.OptionNonDirectory
		read := step{
			cmd: proto.CommandRead, expect: n, also: proto.StatusEndOfFile,
			request: func(id proto.FileID) conn.Request {
				return &proto.ReadRequest{Length: uint32(n), FileID: id}
			},
		}
		return t.chain(ctx, create, func(calls []*conn.Call) error {
			opened, err := proto.DecodeCreateResponse(calls[0].Message())
			if err != nil {
				return t.Malformed(err)
			}
			var got []byte
			if calls[1].Status == proto.StatusSuccess {
				r, err := proto.DecodeReadResponse(calls[1].Message())
				if err == nil && len(r.Data) > n {
					err = conn.ProtocolError("more data than was asked for")
				}
				if err != nil {
					return t.Malformed(err)
				}
				got = r.Data
			}
			if len(got) == n || uint64(len(got)) < opened.EndOfFile {
				return errLarge
			}
			data = append(make([]byte, 0, len(got)), got...)
			fi = statOf(name, &opened)
			return t.after(calls[2], fi, int64(len(got)))
		}, read, closeStep())
	}})
	if hasStatus(err, proto.StatusFileIsADirectory) {
		err = errIsDirectory
	}
	return data, fi, err
}

// after compares a file as it was opened with the attributes in its CLOSE reply, if there are any, and stores
// these in fi.
func (t *tree) after(cl *conn.Call, fi *info, read int64) error {
	closed, err := proto.DecodeCloseResponse(cl.Message())
	if err != nil {
		return t.Malformed(err)
	}
	if closed.Flags&proto.ClosePostQuery == 0 || closed.Times.LastWrite == 0 {
		if fi.size != read {
			return ErrChanged
		}
		return nil
	}
	before := *fi
	fi.size, fi.allocation = int64(closed.EndOfFile), int64(closed.Allocation)
	fi.times.LastWrite, fi.times.Change = closed.Times.LastWrite, closed.Times.Change
	if fi.size != read || before.size != read || before.times.LastWrite != fi.times.LastWrite {
		return ErrChanged
	}
	return nil
}

// reopening runs op, which opens files of its own by their names. If one does not survive the loss of a connection, op runs again.
func reopening(op func() error) (err error) {
	var b budget
	for {
		if err = op(); !errors.Is(err, ErrHandleLost) || !b.countLoss(nil) {
			return err
		}
	}
}

// readLarge reads a file of any length. check runs before it is closed.
func (s *Share) readLarge(name string, check func(*handle, context.Context, int) (*info, error)) (b []byte, fi *info, err error) {
	ctx, cancel := s.m.s.bounded(s.ctx)
	defer cancel()
	err = reopening(func() error {
		b, fi, err = s.readOpened(ctx, name, check)
		return err
	})
	return b, fi, err
}

func (s *Share) readOpened(ctx context.Context, name string, check func(*handle, context.Context, int) (*info, error)) ([]byte, *info, error) {
	f, err := s.openFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // its error means nothing: everything has been read
	b, err := f.h.readAll(ctx)
	var fi *info
	if err == nil {
		fi, err = check(f.h, ctx, len(b))
	}
	return b, fi, err
}

// readOnly checks nothing.
func readOnly(*handle, context.Context, int) (*info, error) { return nil, nil }

// stillAsOpened describes a file of which n bytes were read, and reports whether it was written to since it
// was opened.
func (h *handle) stillAsOpened(ctx context.Context, n int) (*info, error) {
	fi, err := h.stat(ctx)
	if err == nil && (fi.size != int64(n) || fi.times.LastWrite != h.opened) {
		err = ErrChanged
	}
	return fi, err
}

// readAll reads from the start of the file to its end.
func (h *handle) readAll(ctx context.Context) ([]byte, error) {
	// The server states the length, which may be wrong: memory is allocated as bytes arrive. Each allocation after the first copies all of
	// them, so the second is for most files the last.
	const first, second = 8 << 20, 256 << 20
	size := h.length.Load()
	b := make([]byte, 0, min(size, first)+1)
	for {
		n, err := h.transfer(ctx, reading, b[len(b):cap(b)], int64(len(b)))
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			next := 2 * int64(cap(b)) // the file has grown
			if size >= int64(cap(b)) {
				next = min(max(next, second), size+1)
			}
			grown := make([]byte, len(b), next)
			copy(grown, b)
			b = grown
		}
	}
}

// WriteFile writes data to the named file in place, and creates it if necessary. An existing file keeps what it has besides data: its
// attributes, streams, security descriptor, time of creation and other names. Up to 64 KiB take one round trip where one WRITE may have as
// many (SessionInfo.MaxWrite), and two more to cut a file that was longer. After an error the file may have a part of data, and of what it
// had before.
func (s *Share) WriteFile(name string, data []byte, perm fs.FileMode) error {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	err := errLarge
	if len(data) <= smallIO && perm&0o200 != 0 { // a repetition could not write to a read-only file that the first attempt created
		err = s.run(operation{kind: opWriteFile, name: name, do: func(ctx context.Context, t view, remote string) error {
			if len(data) > t.Conn().Terms().MaxWrite {
				return errLarge
			}
			create := openRequest(remote, flags, perm)
			t.emptyByCreate(create, flags)
			create.Contexts.QueryOnDiskID = true
			had, err := t.writeSmall(ctx, create, data)
			if err == nil && had.EndOfFile > uint64(len(data)) {
				req := setRequest(remote)
				req.Access |= proto.AccessWriteData
				err = t.setOf(ctx, req, fileIdentityOf(&had), setStep(proto.ClassEndOfFile, proto.AppendSize(nil, uint64(len(data)))))
			}
			return err
		}})
	}
	if err != errLarge {
		return pathError("write", name, err)
	}
	writeLarge := func() error {
		f, err := s.OpenFile(name, flags, perm)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(data, 0)
		return f.closeWritten(err)
	}
	if perm&0o200 == 0 { // a second attempt could not write to a file that the first one created
		return writeLarge()
	}
	return reopening(writeLarge)
}

// closeWritten closes a file of this call's own, where err is the result of writing all of it. A lost handle needs no CLOSE: the server
// has acknowledged what was written.
func (f *File) closeWritten(err error) error {
	cerr := f.Close()
	if err == nil && !errors.Is(cerr, ErrHandleLost) {
		err = cerr
	}
	return err
}

// writeSmall writes a file with CREATE, WRITE, further steps and CLOSE in one frame. The server does the further steps even if it
// cannot write, or not all. had is the file as it was before.
func (t view) writeSmall(ctx context.Context, create *proto.CreateRequest, data []byte, further ...step) (had proto.CreateResponse, err error) {
	steps := make([]step, 0, 1+len(further))
	if len(data) > 0 {
		steps = append(steps, step{
			cmd: proto.CommandWrite, payload: data,
			request: func(id proto.FileID) conn.Request {
				return &proto.WriteRequest{Length: uint32(len(data)), FileID: id}
			},
		})
	}
	steps = append(steps, further...)
	err = t.send(ctx, chain{create: create, steps: steps, use: func(calls []*conn.Call) error {
		opened, err := proto.DecodeCreateResponse(calls[0].Message())
		if err != nil {
			return t.Malformed(err)
		}
		had = opened
		if len(data) == 0 {
			return nil
		}
		r, err := proto.DecodeWriteResponse(calls[1].Message())
		if err == nil && int64(r.Count) > int64(len(data)) {
			err = conn.ProtocolError("it wrote more than it was sent")
		}
		if err != nil {
			return t.Malformed(err)
		}
		if int(r.Count) < len(data) {
			return io.ErrShortWrite
		}
		return nil
	}})
	return had, err
}

// ReplaceFile writes data to a new file in the same directory, sets its last write time to mtime unless that
// is zero, or so early that [Share.Chtimes] refuses it, and renames it to name, replacing a file that has that name:
// other clients see the old file or the new one, never a part. Only the name is kept: security descriptor, attributes, streams and times
// are those of a new file, and other names of the old file (hard links) keep its content. [Share.WriteFile] keeps all that.
//
// Up to 64 KiB take two round trips, where WriteNewFile takes one: a server goes on with the requests of
// a frame when a WRITE fails or is short, as Samba does on a full disk, so the file is renamed only after the server has
// acknowledged all of it. While another client has the old or the new file open in a way that forbids it (STATUS_SHARING_VIOLATION), the
// file is renamed again for up to three seconds. If the connection is lost while the server renames, the next one shows whether it did.
// When ReplaceFile fails, the file name is unchanged, and the new file is removed again; but if the context ends, or the server cannot be
// reached again, while the server renames, name may be replaced nevertheless. When the server cannot be reached again, the new
// file stays, under a name that begins with "tarn-part-". A file that is open may not be replaced, as with Rename.
func (s *Share) ReplaceFile(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	return pathError("write", name, s.replaceFile(name, data, perm, mtime))
}

func (s *Share) replaceFile(name string, data []byte, perm fs.FileMode, mtime time.Time) error {
	remote, err := s.remote(name)
	if err != nil {
		return err
	}
	beside := temporaryName(remote)
	err = s.writeNew(beside, data, perm, mtime)
	if err != nil && !errors.Is(err, ErrConnLost) {
		return err // writeNew has removed the file
	}
	return s.finishTemporary(beside, name, err)
}

// finishTemporary renames a file to name, or removes it if that fails, or writing it has failed with err.
func (s *Share) finishTemporary(beside, name string, err error) error {
	if err == nil {
		err = s.moveTemporary(beside, name)
	}
	if err != nil && !errors.As(err, new(*dialError)) { // a server that cannot be reached is not dialled again for this
		s.removeUnfinished(beside)
	}
	return err
}

// Pauses between attempts to rename a file that another client has open, such as a virus scanner, and the sum of them.
const (
	firstRenamePause = 50 * time.Millisecond
	renamePauses     = 3 * time.Second
)

// moveTemporary renames a complete file, whose name this call alone knows (temporaryName), and replaces name.
func (s *Share) moveTemporary(beside, name string) error {
	var b budget
	pause, waited := firstRenamePause, time.Duration(0)
	for {
		err := s.rename(beside, proto.RenameInfo{Name: name, Replace: true})
		switch {
		case !errors.As(err, new(*dialError)) && b.retry(s.ctx, s.m.s, nil, err):
			if _, serr := s.stat(beside, proto.OptionOpenReparsePoint); errors.Is(serr, fs.ErrNotExist) {
				return nil // the server has renamed it
			} else if serr != nil {
				return serr
			}
		case hasStatus(err, proto.StatusSharingViolation) && waited < renamePauses:
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return err
			}
			waited += pause
			pause = min(2*pause, renamePauses-waited)
		default:
			return err
		}
	}
}

// removeUnfinished removes a file that could not be finished, even if the share's context has ended, or ends meanwhile, or the
// connection was lost. The server has Limits.CloseTimeout to answer.
func (s *Share) removeUnfinished(name string) {
	// If the end of the context ended the wait, the request would be cancelled or not sent at all, and the file would stay.
	ctx, cancel := s.m.s.closing(context.WithoutCancel(s.ctx))
	defer cancel()
	s.WithContext(ctx).removeBy(opRemoveUnfinished, opRemoveUnfinished, name)
}
