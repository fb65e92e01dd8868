package smb

import (
	"context"
	"errors"
	"os"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// chunkBytes and chunkCount are what every server allows in one COPYCHUNK (MS-SMB2
// 3.3.3, ServerSideCopyMax...).
const (
	chunkBytes = 1 << 20
	chunkCount = 16
)

// Copy copies the file src to dst on the server (FSCTL_SRV_COPYCHUNK): the data does
// not travel. dst is made, or emptied first. It returns how many bytes were copied. A
// server that cannot copy gives an error matching ErrUnsupported, with dst left empty.
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
	// COPYCHUNK demands read access to the target too.
	to, err := s.openFile(dst, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := to.h.copyFrom(s.ctx, from.h, fi.Size())
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// copyFrom asks the server to copy size bytes of from to h.
func (h *handle) copyFrom(ctx context.Context, from *handle, size int64) (int64, error) {
	t, id, err := from.live(ctx)
	if err != nil {
		return 0, err
	}
	key, err := t.resumeKey(ctx, id)
	if err != nil {
		return 0, err
	}
	t2, target, err := h.live(ctx)
	if err != nil {
		return 0, err
	}
	if t2 != t {
		return 0, ErrUnsupported // one of the two came over another connection
	}
	var done int64
	chunks := make([]proto.Chunk, 0, chunkCount)
	for done < size {
		chunks = chunks[:0]
		for at := done; at < size && len(chunks) < chunkCount; at += chunkBytes {
			chunks = append(chunks, proto.Chunk{
				Source: uint64(at), Target: uint64(at), Length: uint32(min(chunkBytes, size-at)),
			})
		}
		n, err := t.copyChunks(ctx, target, key, chunks)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (t *tree) resumeKey(ctx context.Context, id proto.FileID) (key proto.ResumeKey, err error) {
	cl := t.call(proto.CommandIoctl)
	cl.expect = 32
	req := proto.IoctlRequest{Code: proto.FsctlRequestResumeKey, FileID: id, Output: 32}
	if err := t.roundTrip(ctx, cl, &req); err != nil {
		return key, err
	}
	defer cl.release()
	r, err := proto.DecodeIoctlResponse(cl.message())
	if err == nil {
		key, err = proto.DecodeResumeKey(r.Output)
	}
	if err != nil {
		return key, t.malformed(err)
	}
	return key, nil
}

var errShrunk = errors.New("smb: the source shrank while it was copied")

func (t *tree) copyChunks(ctx context.Context, target proto.FileID, key proto.ResumeKey, chunks []proto.Chunk) (int64, error) {
	cl := t.call(proto.CommandIoctl)
	cl.expect = 12
	req := proto.IoctlRequest{
		Code: proto.FsctlCopyChunkWrite, FileID: target, Output: 12,
		Input: proto.AppendCopyChunk(nil, key, chunks),
	}
	err := t.roundTrip(ctx, cl, &req)
	if hasStatus(err, proto.StatusEndOfFile) {
		return 0, errShrunk
	}
	if err != nil {
		return 0, err
	}
	defer cl.release()
	r, err := proto.DecodeIoctlResponse(cl.message())
	if err != nil {
		return 0, t.malformed(err)
	}
	c, err := proto.DecodeCopyChunk(r.Output)
	if err != nil {
		return 0, t.malformed(err)
	}
	var asked int64
	for _, c := range chunks {
		asked += int64(c.Length)
	}
	if int64(c.TotalBytes) > asked {
		return 0, t.malformed(protocolError("it copied more than it was asked to"))
	}
	if c.TotalBytes == 0 {
		return 0, errShrunk
	}
	return int64(c.TotalBytes), nil
}
