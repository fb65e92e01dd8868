package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"os"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// chunkBytes and chunkCount are the limits of one COPYCHUNK that servers allow unless they are configured otherwise (MS-SMB2 3.3.3,
// ServerSideCopyMax...). A server that allows less states its limits ([copyLimits]).
const (
	chunkBytes = 1 << 20
	chunkCount = 16
)

// Copy has the server copy the file src to dst (FSCTL_SRV_COPYCHUNK): the data does not pass through the
// client. dst is created, or overwritten in place and truncated to the length of src at the end. Copy returns
// how many bytes were copied. When both names lead to the same file, the error matches ErrSameFile and the
// file is unchanged. When the server cannot copy, the error matches ErrUnsupported; dst is then unchanged, or
// empty if it did not exist. Like written data, the copy may not be on the server's disk yet: see [File.Sync].
func (s *Share) Copy(dst, src string) (int64, error) {
	n, err := s.copy(dst, src)
	return n, linkError("copy", src, dst, err)
}

func (s *Share) copy(dst, src string) (int64, error) {
	from, err := s.openFile(src, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	fi, err := from.Stat()
	if err != nil {
		return 0, err
	}
	if fi.IsDir() {
		return 0, errIsDirectory
	}
	// COPYCHUNK demands read access to the target too. The target is not truncated when it is opened: it may
	// be the source under another name.
	to, err := s.openFile(dst, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return 0, err
	}
	var n int64
	switch same, known, err := sameFile(s.ctx, from.h, to.h); {
	case err != nil:
		to.Close()
		return 0, err
	case same:
		to.Close()
		return 0, ErrSameFile
	case !known:
		to.Close()
		return s.copyTemporary(dst, from, fi.Size())
	}
	n, err = to.h.copyFrom(s.ctx, from.h, span{n: fi.Size()})
	if err == nil && to.h.length.Load() > fi.Size() {
		err = to.Truncate(fi.Size())
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// sameFile compares the files of two handles. known is false when the server reports no file ids.
func sameFile(ctx context.Context, a, b *handle) (same, known bool, err error) {
	if b.created {
		return false, true, nil // created by this open, after a was opened
	}
	ida, err := a.fileID(ctx)
	if err == nil && ida != 0 {
		var idb uint64
		if idb, err = b.fileID(ctx); err == nil && idb != 0 && ida != idb {
			return false, true, nil
		}
		known = idb != 0
	}
	if err != nil {
		if errors.As(err, new(*ResponseError)) {
			return false, false, nil
		}
		return false, false, err
	}
	if !known {
		return false, false, nil
	}
	// An id is unique on one volume only, and a share may span several.
	ia, err := a.stat(ctx)
	if err != nil {
		return false, false, err
	}
	ib, err := b.stat(ctx)
	if err != nil {
		return false, false, err
	}
	same = ia.st.EndOfFile == ib.st.EndOfFile && ia.st.CreationTime.Equal(ib.st.CreationTime) &&
		ia.st.LastWriteTime.Equal(ib.st.LastWriteTime)
	return same, true, nil
}

// fileID queries the file's id on its volume; zero when it has none.
func (h *handle) fileID(ctx context.Context) (id uint64, err error) {
	err = h.again(ctx, func(t *tree, file proto.FileID) error {
		req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassInternal, Output: 8, FileID: file}
		return t.query(ctx, &req, func(b []byte) error {
			id, err = proto.DecodeInternalInfo(b)
			return err
		})
	})
	return id, err
}

// copyTemporary copies to a new file in the directory of dst and then renames it to dst, so that no data is lost
// when dst is the source.
func (s *Share) copyTemporary(dst string, from *File, size int64) (int64, error) {
	remote, err := s.remote(dst)
	if err != nil {
		return 0, err
	}
	beside := temporaryName(remote)
	to, err := s.openFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := to.h.copyFrom(s.ctx, from.h, span{n: size})
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.rename(beside, proto.RenameInfo{Name: dst, Replace: true})
	}
	if err != nil {
		s.removeUnfinished(beside)
	}
	return n, err
}

// temporaryName is a random name in the directory of the remote name, which no other program can guess. Package cmd/tarn/internal/smb
// knows such names (unfinished) and leaves their files alone.
func temporaryName(remote string) string {
	dir, _ := split(remote)
	return join(dir, ".tarn-"+rand.Text())
}

// span is n bytes at offset source of one file, to be copied to offset target of another.
type span struct{ source, target, n int64 }

// copySource is the file that a server copies from.
type copySource struct {
	from  *handle
	shift int64 // offset in it minus the offset in the target
	t     *tree // tree for which key is valid; nil: no key yet
	key   proto.ResumeKey
}

// keyOn returns the resume key of the source for requests on t. It is requested once for each connection.
func (c *copySource) keyOn(ctx context.Context, t *tree) (proto.ResumeKey, error) {
	if c.t == t {
		return c.key, nil
	}
	on, id, err := c.from.live(ctx)
	if err != nil {
		return c.key, err
	}
	if on != t {
		if !t.Alive() {
			return c.key, t.Err() // reopen the target on the connection of the source
		}
		return c.key, ErrUnsupported // the two files are on different connections
	}
	if c.key, err = t.resumeKey(ctx, id); err == nil {
		c.t = t
	}
	return c.key, err
}

// copiesAhead is how many COPYCHUNK requests are in flight, so that the server has the next one when it
// finishes one.
const copiesAhead = 2

// copyFrom asks the server to copy a span of from to h. A span may be copied twice after a lost connection:
// spans of one file do not overlap, so the result is the same.
func (h *handle) copyFrom(ctx context.Context, from *handle, s span) (done int64, err error) {
	defer h.changed()
	const request = chunkBytes * chunkCount
	source := &copySource{from: from, shift: s.source - s.target}
	var segs [copiesAhead]segment
	p := pipeline{segs: segs[:], bound: copiesAhead * request}
	defer p.drop()
	for asked := int64(0); done < s.n; {
		for asked < s.n && p.room() {
			n := int(min(request, s.n-asked))
			err := p.push(ctx, h, segment{dir: copying, off: s.target + asked, n: n, source: source})
			if err == conn.ErrNoCredits {
				break
			}
			if err != nil {
				n, err := h.completeAll(ctx, &p, 0, err)
				return done + int64(n), err
			}
			asked += int64(n)
		}
		part, err := p.pop(ctx, h)
		done += int64(part.done)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (t *tree) resumeKey(ctx context.Context, id proto.FileID) (key proto.ResumeKey, err error) {
	cl := t.Call(proto.CommandIoctl)
	cl.Expect = 32
	req := proto.IoctlRequest{Code: proto.FsctlRequestResumeKey, FileID: id, Output: 32}
	if err := t.RoundTrip(ctx, cl, &req); err != nil {
		return key, err
	}
	defer cl.Release()
	r, err := proto.DecodeIoctlResponse(cl.Message())
	if err == nil {
		key, err = proto.DecodeResumeKey(r.Output)
	}
	if err != nil {
		return key, t.Malformed(err)
	}
	return key, nil
}

var errShrunk = errors.New("smb: the source shrank while it was copied")

// startCopy sends a COPYCHUNK to target for the remaining part of s, or as much of it as one request may have.
func (t *tree) startCopy(ctx context.Context, target proto.FileID, s *segment, change *effect, policy conn.CreditPolicy) error {
	key, err := s.source.keyOn(ctx, t)
	if err != nil {
		return err
	}
	l, stated := t.copyLimits()
	off, n := s.off+int64(s.done), min(s.n-s.done, l.total)
	chunks := make([]proto.Chunk, 0, l.chunks)
	for at := off; at < off+int64(n); at += int64(l.chunk) {
		chunks = append(chunks, proto.Chunk{
			Source: uint64(at + s.source.shift), Target: uint64(at), Length: uint32(min(int64(l.chunk), off+int64(n)-at)),
		})
	}
	cl := t.Call(proto.CommandIoctl)
	cl.Expect, cl.Effect = 12, change
	req := proto.IoctlRequest{
		Code: proto.FsctlCopyChunkWrite, FileID: target, Output: 12,
		Input: proto.AppendCopyChunk(nil, key, chunks),
	}
	if err := t.Start(ctx, cl, &req, policy); err != nil {
		return err
	}
	s.cl, s.asked, s.on, s.limited = cl, n, t, stated
	return nil
}

// copied waits for the COPYCHUNK cl of n bytes and returns how many the server copied. It releases cl.
func copied(ctx context.Context, cl *conn.Call, n int) (int, error) {
	err := cl.Finish(ctx)
	if hasStatus(err, proto.StatusEndOfFile) {
		return 0, errShrunk
	}
	if err != nil {
		return 0, err
	}
	r, err := proto.DecodeIoctlResponse(cl.Message())
	var c proto.CopyChunkResult
	if err == nil {
		c, err = proto.DecodeCopyChunk(r.Output)
	}
	if err == nil && int64(c.TotalBytes) > int64(n) {
		err = conn.ProtocolError("it copied more than requested")
	}
	if err != nil {
		return 0, cl.Malformed(err)
	}
	cl.Release()
	if c.TotalBytes == 0 {
		return 0, errShrunk
	}
	return int(c.TotalBytes), nil
}
