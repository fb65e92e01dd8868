package smb

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn/smb/internal/conn"
)

var errWhence = errors.New("bad whence")

// streamSize is the length in bytes of one request of the read-ahead or of ReadFrom, where the server allows as many.
const streamSize = 512 << 10

// maxAhead bounds the bytes of read-ahead of one file.
const maxAhead = 8 << 20

// smallFile is the length up to which a file that is read from its start is requested completely, whatever
// the reader's slice: one request.
const smallFile = 64 << 10

// readAhead holds the data requested ahead of a sequential reader. It belongs to the holder of the handle's
// position.
type readAhead struct {
	pipeline
	cur     segment // the segment being read: its data has arrived
	used    int     // bytes of cur that were returned
	err     error   // returned after cur, in place of the next segment
	next    int64   // offset behind the last requested segment
	end     int64   // offset behind the last read: a sequential read begins there
	run     int     // sequential reads so far
	depth   int     // bytes to keep in flight
	version uint64  // the handle's when the first segment was requested
	reads   uint64  // counts reads, for the sweep of idle files
	listed  bool    // among the session's streams
}

// holding reports whether a holds memory.
func (a *readAhead) holding() bool { return !a.empty() || a.cur.n > 0 }

// Read reads up to len(p) bytes at the file's position and advances it. Sequential reads are detected: the
// following bytes are then requested ahead, within Limits.ReadAhead, so the data may be as old as the last
// few reads. Writes through the same session are seen at once.
func (f *File) Read(p []byte) (int, error) {
	h := f.h
	if h.isDir {
		return 0, f.wrap("read", errIsDirectory)
	}
	if len(p) == 0 && !h.ended.Load() {
		return 0, nil
	}
	ctx, cancel := h.m.s.bounded(f.ctx)
	defer cancel()
	if err := h.lockPosition(ctx); err != nil {
		return 0, f.wrap("read", err)
	}
	defer h.unlockPosition()
	n, err := h.readNext(ctx, p)
	return n, f.wrap("read", err)
}

// readNext is Read; the caller holds the position.
func (h *handle) readNext(ctx context.Context, p []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, conn.ContextError(ctx)
	}
	a := &h.stream
	a.budget = budget{}
	inOrder := h.inOrder(len(p))
	if err := a.err; err != nil && !a.holding() {
		h.discardReadAhead() // reported once; the next read sends a request
		return 0, err
	}
	if inOrder {
		if err := h.fillReadAhead(ctx); err != nil {
			return 0, err
		}
		if a.holding() {
			if n, err := h.consume(ctx, p); n > 0 || err != nil {
				return n, err
			}
		}
	}
	n, err := h.transfer(ctx, reading, p, h.off)
	h.advance(n)
	if n > 0 && err == io.EOF {
		a.err, err = err, nil
	}
	return n, err
}

func (h *handle) advance(n int) {
	h.off += int64(n)
	h.stream.end = h.off
}

// inOrder records a read of n bytes at the position and reports whether to read ahead. Read-ahead for another
// position, or from before a change of the file, is dropped.
func (h *handle) inOrder(n int) bool {
	a := &h.stream
	if h.off != a.end || a.version != h.version.Load() {
		h.discardReadAhead()
		a.run = 0
	}
	a.run++
	a.reads++
	small := h.off == 0 && h.length.Load() <= smallFile && int64(n) <= h.length.Load()
	return a.holding() || (a.run >= 3 || small) && h.m.s.cfg.Limits.Pipeline >= streamSize
}

// fillReadAhead requests segments until enough are in flight: up to the depth, the session's budget, and the
// known end of the file.
func (h *handle) fillReadAhead(ctx context.Context) error {
	a, s := &h.stream, h.m.s
	if a.err != nil {
		return nil
	}
	if !a.holding() {
		if a.segs == nil {
			a.segs = make([]segment, maxAhead/streamSize)
		}
		a.next, a.version, a.used = h.off, h.version.Load(), 0
		a.depth = 2 * streamSize
		h.enlist()
	}
	a.bound = min(a.depth, s.cfg.Limits.Pipeline, maxAhead)
	for a.hasRoom() {
		// One byte more than the known length: a short answer means the end of the file.
		left := h.length.Load() - a.next
		if left <= 0 && a.holding() {
			break // the reader requests more when it gets there
		}
		size := streamSize
		if left < streamSize {
			size = int(max(left, 4095)) + 1
		}
		if !s.streams.reserve(size, s.cfg.Limits.ReadAhead) {
			break
		}
		err := a.push(ctx, &h.openFile, segment{dir: reading, off: a.next, n: size})
		if err != nil {
			s.streams.unreserve(size)
			if err == conn.ErrNoCredits {
				break
			}
			return err
		}
		a.next += int64(size)
	}
	a.depth = min(2*a.depth, maxAhead)
	return nil
}

// consume copies arrived data to p, and waits only for the first byte.
func (h *handle) consume(ctx context.Context, p []byte) (int, error) {
	done, wait := 0, waitForNext
	for done < len(p) {
		part, err := h.arrived(ctx, wait)
		if len(part) == 0 {
			if done > 0 && (err == nil || err == io.EOF) {
				break
			}
			return done, err
		}
		n := copy(p[done:], part)
		done += n
		h.consumed(n)
		wait = ifArrived
	}
	return done, nil
}

// arrivalPolicy says whether to wait for the next segment.
type arrivalPolicy uint8

const (
	waitForNext arrivalPolicy = iota
	ifArrived
)

// arrived returns the arrived data that comes next, valid until consumed has been called for all of it. wait
// says whether to wait for the next segment. An empty slice and a nil error mean that nothing has arrived
// yet.
func (h *handle) arrived(ctx context.Context, wait arrivalPolicy) ([]byte, error) {
	a := &h.stream
	for a.used == a.cur.done {
		h.freeCurrent()
		if wait == ifArrived && (a.err != nil || a.empty()) {
			return nil, nil // the next call returns the error
		}
		if a.err != nil || a.empty() {
			err := a.err
			h.discardReadAhead() // the next read sends a request: the file may have grown
			if err == nil {
				if err = h.fillReadAhead(ctx); err == nil && !a.empty() {
					continue
				}
			}
			return nil, err
		}
		if wait == ifArrived && !a.oldest().cl.Ready() {
			return nil, nil
		}
		a.cur, a.err = a.pop(ctx, &h.openFile)
		a.used = 0
		if a.err != nil && a.err != io.EOF && a.cur.done == 0 {
			err := a.err
			h.discardReadAhead()
			return nil, err
		}
		if a.err == nil && a.cur.off+int64(a.cur.done) > h.length.Load() {
			h.size(ctx) // the file has grown; without the new length each request waits for the one before
		}
		if a.err == nil {
			a.err = h.fillReadAhead(ctx) // returned after the arrived data
		}
		if a.err != nil && ctx.Err() != nil { // that is of this read alone: the next one may have another context
			h.m.s.streams.unreserve(a.inFlight)
			a.abandon()
			a.next, a.err = a.cur.off+int64(a.cur.done), nil
		}
	}
	return a.cur.content.data[a.used:a.cur.done], nil
}

// consumed advances the position by n bytes of the slice that arrived returned.
func (h *handle) consumed(n int) {
	h.stream.used += n
	h.advance(n)
}

func (h *handle) freeCurrent() {
	a := &h.stream
	if a.cur.n > 0 {
		h.m.s.streams.unreserve(a.cur.n)
		a.cur.abandon()
	}
	a.cur, a.used = segment{}, 0
}

// enlist adds h to the files that hold memory for their reader: read-ahead, or the reply to a listing. The
// caller holds the position.
func (h *handle) enlist() {
	if !h.stream.listed {
		h.stream.listed = true
		h.m.s.streams.add(h)
	}
}

// delist removes h.
func (h *handle) delist() {
	if h.stream.listed {
		h.stream.listed = false
		h.m.s.streams.remove(h)
	}
}

// discardReadAhead drops the read-ahead. The caller holds the position.
func (h *handle) discardReadAhead() {
	a := &h.stream
	if a.holding() {
		h.m.s.streams.unreserve(a.inFlight)
		a.abandon()
		h.freeCurrent()
	}
	h.delist()
	a.err = nil
	a.version = h.version.Load()
}

// WriteTo writes the file from its position to its end to w, as io.WriterTo, with requests in flight ahead of
// w. The slices given to w are receive buffers: w must not keep or change them. The file's context is checked
// between two writes.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	h := f.h
	ctx, cancel := h.m.s.bounded(f.ctx)
	defer cancel()
	if h.isDir {
		return 0, f.wrap("read", errIsDirectory)
	}
	if err := h.lockPosition(ctx); err != nil {
		return 0, f.wrap("read", err)
	}
	defer h.unlockPosition()
	if h.stream.end != h.off {
		h.discardReadAhead() // read-ahead for another position
	}
	h.stream.end, h.stream.run = h.off, max(h.stream.run, 2) // the file is going to be read sequentially
	var total int64
	for {
		n, err := h.writeNext(ctx, w)
		total += n
		if err == io.EOF {
			return total, nil
		}
		var sink *sinkError
		if errors.As(err, &sink) {
			return total, sink.err
		}
		if err != nil {
			return total, f.wrap("read", err)
		}
	}
}

// sinkError marks the error of a writer, to distinguish it from those of the file.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// writeNext writes the next bytes of the file to w.
func (h *handle) writeNext(ctx context.Context, w io.Writer) (int64, error) {
	if ctx.Err() != nil {
		return 0, conn.ContextError(ctx)
	}
	h.stream.budget = budget{}
	if h.inOrder(streamSize) {
		if err := h.fillReadAhead(ctx); err != nil {
			return 0, err
		}
	}
	if h.stream.holding() {
		part, err := h.arrived(ctx, waitForNext)
		if err != nil {
			return 0, err
		}
		if len(part) > 0 {
			n, werr := w.Write(part)
			h.consumed(n)
			return int64(n), sinkErr(n, len(part), werr)
		}
	}
	// Without a budget or a pipeline: one read at a time.
	buf := h.m.s.cfg.Pool.Get(streamSize)
	defer buf.Free()
	n, err := h.transfer(ctx, reading, buf.Bytes(), h.off)
	if n > 0 {
		m, werr := w.Write(buf.Bytes()[:n])
		h.advance(m)
		if werr = sinkErr(m, n, werr); werr != nil {
			return int64(m), werr
		}
	}
	return int64(n), err
}

func sinkErr(n, want int, err error) error {
	if err == nil && n < want {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &sinkError{err}
	}
	return nil
}
