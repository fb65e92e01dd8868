package smb

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// window is the most requests that one transfer keeps in flight.
const window = 64

// maxLosses is how many connections one request may lose, without a byte of progress
// in between, before its error is returned.
const maxLosses = 4

// errNoCredits says that a request would have to wait for credits.
var errNoCredits = errors.New("smb: no credits available")

// creditPolicy says whether to wait for credits.
type creditPolicy uint8

const (
	waitForCredits creditPolicy = iota
	ifAvailable
)

type direction uint8

const (
	reading direction = iota
	writing
)

// segment is one contiguous part of a transfer and the request that moves it. Moving the
// same bytes twice does no harm, so that a segment whose connection was lost is moved
// again, on the connection that replaced it.
type segment struct {
	dir    direction
	off    int64       // in the file
	n      int         // bytes to move
	data   []byte      // where they go or come from; borrowed until the segment is done
	buf    tarn.Buffer // what data is part of, when the transfer owns it
	done   int         // bytes of data that were moved
	asked  int         // bytes that the request in flight moves
	cl     *call       // the request in flight; nil: none
	losses int         // connections lost since the last progress
}

// issue sends a request for what is left of s, or as much of it as one request may move: the
// rest follows when that one is complete. This is where a transfer looks at its
// context, and where it meets a connection that was lost while nothing was in flight.
// The caller waits for it right after the call named after, if that is not nil.
func (h *handle) issue(ctx context.Context, s *segment, policy creditPolicy, after *call) error {
	for {
		if ctx.Err() != nil {
			return ctxError(ctx)
		}
		t, id, err := h.live(ctx)
		if err != nil {
			return err
		}
		if err = t.move(ctx, id, s, policy, after); err == nil || !h.repeats(ctx, s, err) {
			return err
		}
	}
}

// repeats reports whether a request of s that failed with err is to be sent again: its
// connection was lost, and another may be made.
func (h *handle) repeats(ctx context.Context, s *segment, err error) bool {
	if !h.m.s.replaces(err) || ctx.Err() != nil || s.losses >= maxLosses {
		return false
	}
	s.losses++
	return true
}

// sealed reports whether what the tree sends and receives is encrypted.
func (t *tree) sealed() bool {
	sec := t.c.sec.Load()
	return t.guard == sealed || sec != nil && sec.encryptAll
}

// move sends one request for the rest of s. A read without a slice gets memory here: a
// buffer to receive into, or, where replies are encrypted, later the buffer that the reply was
// decrypted in.
func (t *tree) move(ctx context.Context, id proto.FileID, s *segment, policy creditPolicy, after *call) error {
	if after != nil && after.c != t.c {
		after = nil
	}
	cmd, limit := proto.CommandRead, t.c.agreed.maxRead
	if s.dir == writing {
		cmd, limit = proto.CommandWrite, t.c.agreed.maxWrite
	}
	cl := t.call(cmd)
	cl.follows = after != nil
	mid, charge, n, err := t.book(ctx, cl, min(s.n-s.done, limit), policy)
	if err != nil {
		return err
	}
	off := uint64(s.off + int64(s.done))
	var req request
	if s.dir == writing {
		cl.payload = s.data[s.done:][:n]
		cl.write = proto.WriteRequest{Length: uint32(n), Offset: off, FileID: id}
		req = &cl.write
	} else {
		if s.data == nil && !t.sealed() {
			s.buf = t.c.pool.Get(s.n)
			s.data = s.buf.Bytes()
		}
		if s.data != nil {
			cl.dst = s.data[s.done:][:n]
		}
		cl.expect = n
		cl.read = proto.ReadRequest{Length: uint32(n), Offset: off, FileID: id}
		req = &cl.read
	}
	if err := t.c.startWith(ctx, cl, req, t.guard, mid, charge); err != nil {
		return err
	}
	if after != nil {
		after.mate = cl
	}
	s.cl, s.asked = cl, n
	return nil
}

// book takes the credits to move n bytes with cl, or fewer bytes when the server never
// grants that many. After an error cl is released.
func (t *tree) book(ctx context.Context, cl *call, n int, policy creditPolicy) (mid uint64, charge, m int, err error) {
	want := t.c.charged(n)
	if policy == waitForCredits {
		mid, charge, err = t.c.credits.acquire(ctx, cl, want, 1)
	} else if id, got, ok := t.c.credits.try(want, 1); ok {
		mid, charge = id, got
	} else {
		err = errNoCredits
	}
	if err != nil {
		cl.release()
		return 0, 0, 0, err
	}
	if charge < want {
		n = charge * 65536
	}
	return mid, charge, n, nil
}

// complete waits until s is done: for its request, for further ones where an answer was
// short, and for those on new connections where one was lost. With io.EOF s is done as
// far as the file goes. After any error, io.EOF included, nothing of s is in flight.
func (h *handle) complete(ctx context.Context, s *segment) error {
	for {
		cl := s.cl
		s.cl = nil
		n, err := cl.moved(ctx, s)
		s.done += n
		if n > 0 {
			s.losses = 0
		}
		switch {
		case err != nil:
			if !h.repeats(ctx, s, err) {
				return err
			}
		case s.done == s.n:
			return nil
		case n == 0 && s.dir == writing:
			return io.ErrShortWrite
		case n == 0, s.dir == reading && n < s.asked && s.off+int64(s.done) == h.length.Load():
			return io.EOF
		}
		s.widen(h.m.s.cfg.Pool)
		if err := h.issue(ctx, s, waitForCredits, nil); err != nil {
			return err
		}
	}
}

// moved waits for the request of s and returns how many bytes it moved. cl is released.
func (cl *call) moved(ctx context.Context, s *segment) (int, error) {
	if s.dir == writing {
		return cl.wrote(ctx, s.asked)
	}
	if s.data == nil {
		b, err := cl.readOut(ctx, s.asked)
		if err == nil {
			s.buf, s.data = b, b.Bytes()
		}
		return b.Len(), err
	}
	return cl.readInto(ctx)
}

// widen gives a segment that was answered in part, in the buffer of its reply, memory for
// the rest.
func (s *segment) widen(pool *tarn.Pool) {
	if s.data == nil || len(s.data) == s.n {
		return
	}
	buf := pool.Get(s.n)
	copy(buf.Bytes(), s.data)
	s.buf.Free()
	s.buf, s.data = buf, buf.Bytes()
}

// readInto waits for a READ and returns how many bytes are in its slice. The end of the
// file is io.EOF. cl is released.
func (cl *call) readInto(ctx context.Context) (int, error) {
	if err := cl.finish(ctx); err != nil {
		return 0, err
	}
	if err := cl.judgeRead(); err != nil {
		return 0, err
	}
	n := cl.placed
	if !cl.direct {
		r, err := proto.DecodeReadResponse(cl.message())
		if err == nil && len(r.Data) > len(cl.dst) {
			err = protocolError("more data than was asked for")
		}
		if err != nil {
			return 0, cl.malformed(err)
		}
		n = copy(cl.dst, r.Data)
	}
	cl.release()
	return n, nil
}

func (cl *call) judgeRead() error {
	if cl.status == proto.StatusEndOfFile {
		cl.release()
		return io.EOF
	}
	return cl.judge(nil)
}

// wrote waits for a WRITE of n bytes and returns how many of them the server has. cl is
// released.
func (cl *call) wrote(ctx context.Context, n int) (int, error) {
	if err := cl.finish(ctx); err != nil {
		return 0, err
	}
	if err := cl.judge(nil); err != nil {
		return 0, err
	}
	r, err := proto.DecodeWriteResponse(cl.message())
	if err == nil && int64(r.Count) > int64(n) {
		err = protocolError("it wrote more than it was given")
	}
	if err != nil {
		return 0, cl.malformed(err)
	}
	cl.release()
	return int(r.Count), nil
}

// drop gives a segment up: what is in flight is cancelled, and its memory returned.
func (s *segment) drop() {
	if cl := s.cl; cl != nil {
		s.cl = nil
		cl.moved(endedContext(), s) // waits for what is being received into data
	}
	s.buf.Free()
	*s = segment{}
}

// endedContext is a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// pipeline keeps the segments of one transfer in flight and hands them over in the order
// of the file. All transfers of package smb run through one. The handle is a parameter of
// its methods rather than a field, so that a pipeline may stay on its caller's stack.
type pipeline struct {
	segs     []segment // a ring: those from head up to tail are in flight
	head     int
	tail     int
	inFlight int // bytes
	bound    int // bytes that may be in flight
}

func (p *pipeline) empty() bool { return p.head == p.tail }

// room reports whether another segment may be put in flight. One always may.
func (p *pipeline) room() bool {
	return p.empty() || p.tail-p.head < len(p.segs) && p.inFlight < p.bound
}

func (p *pipeline) oldest() *segment { return &p.segs[p.head%len(p.segs)] }

// push puts s in flight; the pipeline owns its buffer then. The first request waits for
// credits, further ones fail with errNoCredits instead. After an error s is the caller's.
func (p *pipeline) push(ctx context.Context, h *handle, s segment, after *call) error {
	policy := ifAvailable
	if p.empty() {
		policy = waitForCredits
	}
	at := &p.segs[p.tail%len(p.segs)]
	*at = s
	if err := h.issue(ctx, at, policy, after); err != nil {
		if s.data == nil {
			at.buf.Free()
		}
		*at = segment{}
		return err
	}
	p.tail++
	p.inFlight += s.n
	return nil
}

// pop completes the oldest segment and hands it over, with its buffer, as far as it was
// done.
func (p *pipeline) pop(ctx context.Context, h *handle) (segment, error) {
	at := p.oldest()
	err := h.complete(ctx, at)
	s := *at
	*at = segment{}
	p.head++
	p.inFlight -= s.n
	return s, err
}

// drop gives up what is in flight. No slice of it is touched afterwards.
func (p *pipeline) drop() {
	for ; !p.empty(); p.head++ {
		p.oldest().drop()
	}
	p.inFlight = 0
}

// Lengths of one request in a call that needs several.
const (
	wholeChunk = 1 << 20   // a request costs the server and the client the same whatever it moves
	splitChunk = 704 << 10 // two at work on what one could move: the server, and the client
)

// chunk is the length of one request of a call that moves n bytes, where one request may
// move at most limit. When nothing else is under way, what one request could move goes as
// two where there is something to encrypt or sign, or where the connection is a socket:
// server and client then have work at once. Measured against Samba: 704 and 320 KiB of
// 1 MiB. Halves are slower than the whole: the C library under Samba goes by the longest
// block it has seen when it decides how much free memory to give back to the system, and
// then takes and returns as much for every pair of requests. With other calls under
// way there is work for both sides anyway, and every request costs a thread change.
func (t *tree) chunk(n, limit int) int {
	if limit <= splitChunk || n <= splitChunk || !t.c.ring.empty() {
		return min(limit, wholeChunk)
	}
	sec := t.c.sec.Load()
	guarded := t.guard == sealed || sec.encryptAll || sec.signAll
	if guarded || n <= wholeChunk && t.c.send.vector {
		return splitChunk
	}
	return min(limit, wholeChunk)
}

// transfer moves p from or to off, with as many requests in flight as credits and
// Limits.Pipeline allow, and returns how many bytes from the start of p were moved. What
// is beyond may have been moved or not when there is an error, io.EOF at the end of the
// file. p is not touched after the return.
func (h *handle) transfer(ctx context.Context, dir direction, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t, _, err := h.live(ctx)
	if err != nil {
		return 0, err
	}
	limit := t.c.agreed.maxRead
	if dir == writing {
		limit = t.c.agreed.maxWrite
	}
	size := t.chunk(len(p), limit)
	if len(p) > size {
		return h.transferMany(ctx, dir, p, off, size)
	}
	s := segment{dir: dir, off: off, n: len(p), data: p}
	if err := h.issue(ctx, &s, waitForCredits, nil); err != nil {
		return 0, err
	}
	err = h.complete(ctx, &s)
	return s.done, err
}

func (h *handle) transferMany(ctx context.Context, dir direction, b []byte, off int64, size int) (landed int, err error) {
	var segs [window]segment
	p := pipeline{segs: segs[:], bound: h.m.s.cfg.Limits.Pipeline}
	defer p.drop() // b must not be touched after the return
	asked := 0
	for landed < len(b) {
		for asked < len(b) && p.room() {
			if dir == reading && !p.empty() && off+int64(asked) >= h.length.Load() {
				break // beyond what is known of the file: only if all before is there
			}
			var after *call
			if !p.empty() && len(b) <= 2*size {
				after = readsFor(p.oldest().cl)
			}
			part := b[asked:min(asked+size, len(b))]
			err := p.push(ctx, h, segment{dir: dir, off: off + int64(asked), n: len(part), data: part}, after)
			if err == errNoCredits {
				break
			}
			if err != nil {
				return h.landAll(ctx, &p, landed, err)
			}
			asked += len(part)
		}
		s, err := p.pop(ctx, h)
		landed += s.done
		if err != nil {
			return landed, err
		}
	}
	return landed, nil
}

// landAll completes what was in flight when a later segment failed with failed.
func (h *handle) landAll(ctx context.Context, p *pipeline, landed int, failed error) (int, error) {
	for !p.empty() {
		s, err := p.pop(ctx, h)
		landed += s.done
		if err != nil {
			return landed, err
		}
	}
	return landed, failed
}

// readsFor is cl where its caller may read the reply to the next request as well: nobody
// reads while that one is sent, so that the connection must have room for a request while its
// other end is sending.
func readsFor(cl *call) *call {
	if cl != nil && cl.c.send.vector {
		return cl
	}
	return nil
}

// readBuffer reads up to n bytes at off into pooled memory, with one request.
func (t *tree) readBuffer(ctx context.Context, id proto.FileID, off int64, n int) (tarn.Buffer, error) {
	cl := t.call(proto.CommandRead)
	mid, charge, n, err := t.book(ctx, cl, min(n, t.c.agreed.maxRead), waitForCredits)
	if err != nil {
		return tarn.Buffer{}, err
	}
	// No destination: the reply's own buffer is what the caller gets.
	cl.expect = n
	cl.read = proto.ReadRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.read, t.guard, mid, charge); err != nil {
		return tarn.Buffer{}, err
	}
	return cl.readOut(ctx, n)
}

// readOut waits for a READ of n bytes and returns them in the buffer of its reply, which
// is the caller's to free. The end of the file is io.EOF. cl is released.
func (cl *call) readOut(ctx context.Context, n int) (tarn.Buffer, error) {
	if err := cl.finish(ctx); err != nil {
		return tarn.Buffer{}, err
	}
	if err := cl.judgeRead(); err != nil {
		return tarn.Buffer{}, err
	}
	msg := cl.message()
	r, err := proto.DecodeReadResponse(msg)
	if err == nil && len(r.Data) > n {
		err = protocolError("more data than was asked for")
	}
	if err != nil {
		return tarn.Buffer{}, cl.malformed(err)
	}
	if len(r.Data) == 0 {
		cl.release()
		return tarn.Buffer{}, io.EOF
	}
	at := len(msg) - len(r.Data)
	if p, err := proto.DecodeReadPrefix(msg); err == nil {
		at = int(p.Offset)
	}
	buf := cl.reply.Narrow(at, at+len(r.Data))
	cl.reply = tarn.Buffer{}
	cl.release()
	return buf, nil
}
