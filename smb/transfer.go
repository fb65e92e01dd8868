package smb

import (
	"context"
	"io"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// window is the largest number of requests that one transfer keeps in flight.
const window = 64

// issue sends a request for the remaining part of s, or as much of it as one request may move. It checks the
// transfer's context, and replaces a connection that was lost while nothing was in flight.
func (h *openFile) issue(ctx context.Context, b *budget, s *segment, policy conn.CreditPolicy) error {
	if ctx.Err() != nil {
		return conn.ContextError(ctx)
	}
	kind := s.dir.kind()
	var t *tree
	var id proto.FileID
	connect := func() (_ *tree, err error) {
		t, id, err = h.live(ctx, ordered)
		return t, err
	}
	return h.m.s.run(ctx, kind.rule(), b, connect, func() error {
		off := s.off + int64(s.done)
		if s.dir == appending && h.appendsAtEnd() {
			off = endOfFile
		}
		return s.start(ctx, t, id, off, h.effect(kind), policy)
	})
}

// endOfFile is the offset of a WRITE that the server puts at the end of the file.
const endOfFile = -1

// appendsAtEnd reports whether each WRITE must have the offset endOfFile: Samba refuses others on a handle with the POSIX extensions that may
// only append, and that one on every other handle, such as one that was opened again.
func (h *openFile) appendsAtEnd() bool {
	return h.appendOnly && h.grants.POSIX != nil && !h.reopened.Load()
}

// complete waits until s is done: for its request, for further ones after a short answer, and for those on
// new connections after a loss. With io.EOF s is done up to the end of the file. After any error, io.EOF
// included, nothing of s is in flight.
func (h *openFile) complete(ctx context.Context, b *budget, s *segment) error {
	rule := s.dir.kind().rule()
	for {
		cl := s.cl
		s.cl = nil
		n, err := s.finish(ctx, cl)
		s.done += n
		if n > 0 && s.dir != listingEntries { // its entries may all have been returned before
			b.progress()
		}
		switch {
		case err != nil:
			if rule.repeat == sentOnce && !notBegun(err) {
				return h.closedByServer(err)
			}
			fits := s.dir == copying && s.copy.takeLimits(s.on, err) // the part is sent again within them
			if !fits && !b.retry(ctx, h.m.s, s.on, err) {
				return h.closedByServer(err)
			}
		case s.done == s.n:
			return nil
		case n == 0 && (s.dir == writing || s.dir == appending):
			return io.ErrShortWrite
		case n == 0, s.dir == reading && n < s.asked && s.off+int64(s.done) == h.length.Load():
			return io.EOF
		}
		if s.dir == reading {
			s.content.widen(h.m.s.cfg.Pool, s.n)
		}
		if err := h.issue(ctx, b, s, conn.WaitForCredits); err != nil {
			return err
		}
	}
}

// pipeline keeps the segments of one transfer in flight and returns them in the order of the file. All
// transfers of package smb use one. The handle is a parameter of its methods rather than a field, so that a
// pipeline may stay on its caller's stack.
type pipeline struct {
	segs     []segment // a ring: those from head up to tail are in flight
	head     int
	tail     int
	inFlight int // bytes
	bound    int // bytes that may be in flight
	budget   budget
}

func (p *pipeline) empty() bool { return p.head == p.tail }

// hasRoom reports whether another segment may be sent. A single one always may.
func (p *pipeline) hasRoom() bool {
	return p.empty() || p.tail-p.head < len(p.segs) && p.inFlight < p.bound
}

// near reports whether end is within the bound of the oldest segment's start, over the gaps between segments, so that after an
// interruption nothing is missing that lies further before the last byte that was written.
func (p *pipeline) near(end int64) bool {
	return p.empty() || end-p.oldest().off <= int64(p.bound)
}

func (p *pipeline) oldest() *segment { return &p.segs[p.head%len(p.segs)] }

// push sends s; the pipeline then owns its buffer. The first request waits for credits, further ones fail
// with conn.ErrNoCredits instead. On error s remains the caller's.
func (p *pipeline) push(ctx context.Context, h *openFile, s segment) error {
	policy := conn.IfAvailable
	if p.empty() {
		policy = conn.WaitForCredits
	}
	at := &p.segs[p.tail%len(p.segs)]
	*at = s
	if err := h.issue(ctx, &p.budget, at, policy); err != nil {
		if s.content.data == nil {
			at.content.buf.Free()
		}
		*at = segment{}
		return err
	}
	p.tail++
	p.inFlight += s.n
	return nil
}

// pop completes the oldest segment and returns it, with its buffer, as far as it was done.
func (p *pipeline) pop(ctx context.Context, h *openFile) (segment, error) {
	at := p.oldest()
	err := h.complete(ctx, &p.budget, at)
	s := *at
	*at = segment{}
	p.head++
	p.inFlight -= s.n
	return s, err
}

// abandon cancels everything in flight. No slice of it is touched afterwards.
func (p *pipeline) abandon() {
	for ; !p.empty(); p.head++ {
		p.oldest().abandon()
	}
	p.inFlight = 0
}

// transfer moves p from or to off, with as many requests in flight as credits and Limits.Pipeline allow, and
// returns how many bytes from the start of p were moved. On error the bytes beyond may or may not have been
// moved; at the end of the file the error is io.EOF. p is not touched after the return.
func (h *openFile) transfer(ctx context.Context, dir direction, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var b budget
	t, _, err := h.ready(ctx, &b)
	if err != nil {
		return 0, err
	}
	size := t.ReadSize(len(p))
	if dir == writing {
		size = t.WriteSize(len(p))
	}
	if len(p) > size {
		return h.transferMany(ctx, b, dir, p, off, size)
	}
	s := segment{dir: dir, off: off, n: len(p), content: content{data: p}}
	if err := h.issue(ctx, &b, &s, conn.WaitForCredits); err != nil {
		return 0, err
	}
	err = h.complete(ctx, &b, &s)
	return s.done, err
}

func (h *openFile) transferMany(ctx context.Context, b budget, dir direction, data []byte, off int64, size int) (moved int, err error) {
	var segs [window]segment
	p := pipeline{segs: segs[:], bound: h.m.s.cfg.Limits.Pipeline, budget: b}
	defer p.abandon() // p must not be touched after the return
	asked := 0
	for moved < len(data) {
		for asked < len(data) && p.hasRoom() {
			if dir == reading && !p.empty() && off+int64(asked) >= h.length.Load() {
				break // beyond the known end of the file: only after everything before has arrived
			}
			part := data[asked:min(asked+size, len(data))]
			err := p.push(ctx, h, segment{dir: dir, off: off + int64(asked), n: len(part), content: content{data: part}})
			if err == conn.ErrNoCredits {
				break
			}
			if err != nil {
				return h.completeAll(ctx, &p, moved, err)
			}
			asked += len(part)
		}
		s, err := p.pop(ctx, h)
		moved += s.done
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// completeAll completes what was in flight when a later segment failed with failed.
func (h *openFile) completeAll(ctx context.Context, p *pipeline, moved int, failed error) (int, error) {
	for !p.empty() {
		s, err := p.pop(ctx, h)
		moved += s.done
		if err != nil {
			return moved, err
		}
	}
	return moved, failed
}

// readBuffer reads up to n bytes at off into pooled memory, with one request.
func (t *tree) readBuffer(ctx context.Context, id proto.FileID, off int64, n int) (tarn.Buffer, error) {
	// No destination: the caller gets the reply's own buffer.
	cl, n, err := t.StartRead(ctx, id, off, n, nil, conn.WaitForCredits)
	if err != nil {
		return tarn.Buffer{}, err
	}
	return cl.ReadBuffer(ctx, n)
}
