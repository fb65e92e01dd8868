package smb

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"sort"

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
// how many bytes were copied, holes included. When both names lead to the same file, the error matches ErrSameFile and the
// file is unchanged. When the server cannot copy, the error matches ErrUnsupported; the content of dst is then unchanged, or
// empty if it did not exist. Like written data, the copy may not be on the server's disk yet: see [File.Sync].
//
// Holes of a src that is marked as sparse ([File.SetSparse]) become holes of dst where the server reports and makes them
// (FSCTL_QUERY_ALLOCATED_RANGES, FSCTL_SET_SPARSE, FSCTL_SET_ZERO_DATA); otherwise they are copied as zeros. What an existing dst needs
// more room for on the server's disk is copied first: what makes it longer, and what fills holes of a dst that is marked as sparse. When
// the server has no room for that, the content of dst is unchanged.
//
// Copy does not keep other programs from changing src. The copy is as long as src was at the beginning, and each byte of
// it is one that src had at that place at some time during the call. If src has become shorter meanwhile, Copy
// fails with an error that matches ErrChanged, unless it had holes only in what is missing.
func (s *Share) Copy(dst, src string) (int64, error) {
	var n int64
	err := reopening(func() (err error) {
		n, err = s.copy(dst, src)
		return err
	})
	return n, linkError("copy", src, dst, err)
}

func (s *Share) copy(dst, src string) (int64, error) {
	from, err := s.openFile(src, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	if from.h.isDir {
		return 0, errIsDirectory
	}
	// COPYCHUNK demands read access to the target too. The target is not truncated when it is opened: it may
	// be the source under another name.
	to, err := s.openFile(dst, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := s.copyOpened(&to.h.openFile, &from.h.openFile)
	err = to.closeWritten(err)
	if err == errPerhapsSame {
		return s.copyTemporary(dst, from)
	}
	return n, err
}

func (s *Share) copyOpened(to, from *openFile) (int64, error) {
	if !to.created { // by this open, after from was opened
		if err := differ(s.ctx, from, to); err != nil {
			return 0, err
		}
	}
	return to.replaceBy(s.ctx, from)
}

// errPerhapsSame is returned when the server does not say whether two handles are of one file.
var errPerhapsSame = errors.New("smb: source and target may be the same file")

// differ returns nil if the handles are of different files, else ErrSameFile or errPerhapsSame.
func differ(ctx context.Context, a, b *openFile) error {
	switch same, known, err := sameFile(ctx, a, b); {
	case err != nil:
		return err
	case same:
		return ErrSameFile
	case !known:
		return errPerhapsSame
	}
	return nil
}

// replaceBy has the server replace the content of h by that of from. If from is, or may be, the same file, h must be empty.
func (h *openFile) replaceBy(ctx context.Context, from *openFile) (int64, error) {
	fi, err := from.stat(ctx)
	if err != nil {
		return 0, err
	}
	data, err := h.dataFrom(ctx, from, fi)
	if err != nil {
		return 0, err
	}
	had, err := h.roomTaken(ctx)
	if err != nil {
		return 0, err
	}
	more := without(data, had)
	if err := h.extendFrom(ctx, from, more); err != nil {
		return 0, err
	}
	return h.takeRanges(ctx, from, without(data, more), holesOver(had, data, fi.Size()), fi.Size())
}

// holesOver are the holes of a file with that size and data, at places where another has had room.
func holesOver(had, data []Range, size int64) []Range {
	return slices.DeleteFunc(without([]Range{{0, size}}, data), func(r Range) bool { return length(without([]Range{r}, had)) == r.Length })
}

// extendFrom copies to h what its file needs more room for on the server's disk. It runs before anything is overwritten: when the disk is
// full, the content of h is what it was.
func (h *openFile) extendFrom(ctx context.Context, from *openFile, more []Range) error {
	length := h.length.Load()
	spans := spansOf(more)
	done, err := h.copyFrom(ctx, from, spans)
	h.grown(reached(spans, done))
	if errors.As(err, new(*ResponseError)) || errors.Is(err, ErrChanged) { // err is returned, also if this fails
		h.setLength(ctx, length) // a server that refuses a request may have carried out a part of it
		h.zero(ctx, before(more, length))
	}
	return err
}

// takeRanges copies ranges of from to h, gives h the length size, and empties the ranges holes of it. It returns up to which offset h is a
// copy.
func (h *openFile) takeRanges(ctx context.Context, from *openFile, ranges, holes []Range, size int64) (int64, error) {
	spans, had := spansOf(ranges), h.length.Load()
	done, err := h.copyFrom(ctx, from, spans)
	n := reached(spans, done)
	h.grown(n)
	if len(holes) > 0 {
		n = min(n, holes[0].Offset)
	}
	if last := len(holes) - 1; err == nil && last >= 0 && holes[last].Offset+holes[last].Length == size {
		err = h.setLength(ctx, holes[last].Offset) // no block at the end is left, as there would be if it were emptied
		had, holes = min(had, holes[last].Offset), holes[:last]
	}
	if err == nil && h.length.Load() != size {
		err = h.setLength(ctx, size)
	}
	if err != nil {
		return n, err
	}
	err = h.zero(ctx, holes)
	if errors.As(err, new(*ResponseError)) {
		_, err = h.copyFrom(ctx, from, spansOf(before(holes, had))) // the zeros of from are as good
	}
	if err != nil {
		return n, err
	}
	return size, nil
}

// sameFile compares the files of two handles. known is false when the server reports no file ids.
func sameFile(ctx context.Context, a, b *openFile) (same, known bool, err error) {
	if a.snapshot != b.snapshot {
		return false, true, nil // a is of a snapshot, and b is not
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
	// The time of creation alone: another program may be writing to the file. Servers invent one from the other times where their
	// disk stores none, so a difference proves nothing.
	same = ia.times.Creation == ib.times.Creation
	return same, same, nil
}

// fileID is the file's id on its volume, as CREATE has returned it or, if that was not asked for it, the server does now; zero when it has none.
func (h *openFile) fileID(ctx context.Context) (uint64, error) {
	if h.made.id == 0 {
		return h.openID(ctx)
	}
	return h.made.id, h.run(ctx, opQueryFile, func(*tree, proto.FileID) error { return nil })
}

// openID queries the id of the file, which no other file has: that the server answers shows that it has the file open.
func (h *openFile) openID(ctx context.Context) (id uint64, err error) {
	err = h.run(ctx, opQueryFile, func(t *tree, file proto.FileID) error {
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
func (s *Share) copyTemporary(dst string, from *File) (int64, error) {
	remote, err := s.remote(dst)
	if err != nil {
		return 0, err
	}
	beside := temporaryName(remote)
	to, err := s.openFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := to.h.replaceBy(s.ctx, &from.h.openFile)
	return n, s.finishTemporary(beside, dst, to.closeWritten(err))
}

// temporaryName is a random name in the directory of the remote name, which no other program can guess. It does not begin with a period:
// servers may hide or refuse such names. Package cmd/tarn/internal/smb knows it (unfinished) and leaves such files alone.
func temporaryName(remote string) string {
	dir, _ := split(remote)
	return join(dir, "tarn-part-"+rand.Text())
}

// span is n bytes at offset source of one file, to be copied to offset target of another.
type span struct {
	source, target, n int64
	begin             int64 // bytes in the spans before it
}

// spansOf are ranges that are copied to the same places.
func spansOf(ranges []Range) []span {
	spans, begin := make([]span, len(ranges)), int64(0)
	for i, r := range ranges {
		spans[i] = span{source: r.Offset, target: r.Offset, n: r.Length, begin: begin}
		begin += r.Length
	}
	return spans
}

// bytesIn is how many bytes spans have.
func bytesIn(spans []span) int64 {
	if len(spans) == 0 {
		return 0
	}
	last := &spans[len(spans)-1]
	return last.begin + last.n
}

// spanAt is the index of the span with byte at of all spans.
func spanAt(spans []span, at int64) int {
	return sort.Search(len(spans), func(i int) bool { return spans[i].begin+spans[i].n > at })
}

// reached is the offset in the target up to which it is complete when done bytes of spans, which are in order, were copied.
func reached(spans []span, done int64) int64 {
	if done == 0 {
		return 0
	}
	s := &spans[spanAt(spans, done-1)]
	return s.target + done - s.begin
}

// copySource is the file that a server copies from.
type copySource struct {
	from  *openFile
	spans []span
	t     *tree // tree for which key is valid; nil: no key yet
	key   proto.ResumeKey
}

// appendChunks appends the chunks of a COPYCHUNK for the bytes from at of all spans on, at most n and as many as l allows. It
// returns how many bytes they have.
func (c *copySource) appendChunks(chunks []proto.Chunk, at, n int64, l copyLimits) ([]proto.Chunk, int64) {
	total, n := int64(0), min(n, int64(l.total))
	for i := spanAt(c.spans, at); total < n && len(chunks) < l.chunks; {
		s := &c.spans[i]
		within := at + total - s.begin
		part := min(s.n-within, int64(l.chunk), n-total)
		chunks = append(chunks, proto.Chunk{Source: uint64(s.source + within), Target: uint64(s.target + within), Length: uint32(part)})
		if total += part; within+part == s.n {
			i++
		}
	}
	return chunks, total
}

// keyOn returns the resume key of the source for requests on t. It is requested once for each connection.
func (c *copySource) keyOn(ctx context.Context, t *tree) (proto.ResumeKey, error) {
	if c.t == t {
		return c.key, nil
	}
	on, id, err := c.from.live(ctx, ordered)
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

// copyFrom asks the server to copy spans of from to h, in order. A part may be copied twice after a lost connection:
// spans of one file do not overlap, so the result is the same.
func (h *openFile) copyFrom(ctx context.Context, from *openFile, spans []span) (done int64, err error) {
	defer h.changed()
	source, total := &copySource{from: from, spans: spans}, bytesIn(spans)
	var segs [copiesAhead]segment
	var chunks [chunkCount]proto.Chunk
	p := pipeline{segs: segs[:], bound: copiesAhead * chunkCount * chunkBytes}
	defer p.abandon()
	for asked := int64(0); done < total; {
		for asked < total && p.hasRoom() {
			_, n := source.appendChunks(chunks[:0], asked, total-asked, mostCopied())
			err := p.push(ctx, h, segment{dir: copying, off: asked, n: int(n), copy: serverCopy{source: source}})
			if err == conn.ErrNoCredits {
				break
			}
			if err != nil {
				n, err := h.completeAll(ctx, &p, 0, err)
				return done + int64(n), err
			}
			asked += n
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

var errShrunk error = &classError{"smb: the source shrank while it was copied", ErrChanged}

// serverCopy is a segment that the server copies.
type serverCopy struct {
	source  *copySource // where the bytes come from
	limited bool        // the request in flight keeps to limits that the server has stated
}

// start sends a COPYCHUNK to target for the n bytes from off of all spans, or as many of them as one request may have.
func (c *serverCopy) start(ctx context.Context, t *tree, target proto.FileID, off int64, n int, change conn.Effect, policy conn.CreditPolicy) (*conn.Call, int, error) {
	key, err := c.source.keyOn(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	l, stated := t.copyLimits()
	var room [chunkCount]proto.Chunk
	chunks, asked := c.source.appendChunks(room[:0], off, int64(n), l)
	cl := t.Call(proto.CommandIoctl)
	cl.Expect, cl.Effect = 12, change
	req := proto.IoctlRequest{
		Code: proto.FsctlCopyChunkWrite, FileID: target, Output: 12,
		Input: proto.AppendCopyChunk(nil, key, chunks),
	}
	if err := t.Start(ctx, cl, &req, policy); err != nil {
		return nil, 0, err
	}
	c.limited = stated
	return cl, int(asked), nil
}

// finish waits for the COPYCHUNK cl of n bytes and returns how many the server copied. It releases cl.
func (*serverCopy) finish(ctx context.Context, cl *conn.Call, n int) (int, error) {
	err := cl.Finish(ctx)
	if hasStatus(err, proto.StatusInvalidViewSize) || hasStatus(err, proto.StatusEndOfFile) {
		return 0, errShrunk // MS-SMB2 3.3.5.15.6
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
