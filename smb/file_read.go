package smb

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// window is the most requests that one call keeps in flight.
const window = 64

// errBusy says that a request would have to wait for credits.
var errBusy = errors.New("smb: no credits to spare")

// patience is whether to wait for credits.
type patience uint8

const (
	waitCredits patience = iota
	onlyIfFree
)

// flight is one request of a pipelined call: n bytes at offset at of its slice.
type flight struct {
	cl    *call
	at, n int
}

// book takes the credits to move n bytes with cl, or fewer bytes when the server never
// grants that many. After an error cl is released.
func (t *tree) book(ctx context.Context, cl *call, n int, p patience) (mid uint64, charge, m int, err error) {
	want := t.c.charged(n)
	if p == waitCredits {
		mid, charge, err = t.c.credits.acquire(ctx, cl, want, 1)
	} else if id, got, ok := t.c.credits.try(want, 1); ok {
		mid, charge = id, got
	} else {
		err = errBusy
	}
	if err != nil {
		t.c.release(cl)
		return 0, 0, 0, err
	}
	if charge < want {
		n = charge * 65536
	}
	return mid, charge, n, nil
}

// startRead asks for len(dst) bytes at off, to be placed in dst, and returns how many it
// asked for: one request's worth at most. The caller waits for it right after the call
// named after, if that is not nil; nobody may be reading while it is sent, so that the
// connection must have room for a request while its other end is sending.
func (t *tree) startRead(ctx context.Context, id proto.FileID, dst []byte, off int64, p patience, after *call) (*call, int, error) {
	cl := t.call(proto.CommandRead)
	cl.follows = after != nil
	mid, charge, n, err := t.book(ctx, cl, min(len(dst), t.c.agreed.maxRead), p)
	if err != nil {
		return nil, 0, err
	}
	cl.dst, cl.expect = dst[:n], n
	cl.read = proto.ReadRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.read, t.guard, mid, charge); err != nil {
		return nil, 0, err
	}
	if after != nil {
		after.mate = cl
	}
	return cl, n, nil
}

// finishRead waits for a READ and returns how many bytes are in its slice. The end of
// the file is io.EOF. cl is released.
func (t *tree) finishRead(ctx context.Context, cl *call) (int, error) {
	if err := t.c.finish(ctx, cl); err != nil {
		return 0, err
	}
	if err := t.judgeRead(cl); err != nil {
		return 0, err
	}
	n := cl.placed
	if !cl.direct {
		r, err := proto.DecodeReadResponse(cl.message())
		if err == nil && len(r.Data) > len(cl.dst) {
			err = protocolError("more data than was asked for")
		}
		if err != nil {
			t.c.release(cl)
			return 0, t.malformed(err)
		}
		n = copy(cl.dst, r.Data)
	}
	t.c.release(cl)
	return n, nil
}

func (t *tree) judgeRead(cl *call) error {
	if cl.status == proto.StatusEndOfFile {
		t.c.release(cl)
		return io.EOF
	}
	return t.c.judge(cl, nil)
}

// The lengths of one request in a call that needs several.
const (
	wholeChunk = 1 << 20   // each costs the server and us the same, whatever it moves
	splitChunk = 704 << 10 // two at work on what one could move: the server, and we
)

// chunk is the length of one request of a call that moves n bytes, where one request may
// move at most limit. What one request could move goes as two when there is something to
// encrypt or sign, or when nothing else is under way on a socket, so that both sides have
// work at once. Measured against Samba: 704 and 320 KiB of 1 MiB. Halves are slower than the
// whole: the C library under Samba goes by the longest block it has seen when it decides
// how much free memory to give back to the system, and then takes and returns as much
// for every pair of requests.
func (t *tree) chunk(n, limit int) int {
	sec := t.c.sec.Load()
	guarded := t.guard == sealed || sec.encryptAll || sec.signAll
	if guarded || n <= wholeChunk && t.c.send.vector && t.c.ring.empty() {
		return min(limit, splitChunk)
	}
	return min(limit, wholeChunk)
}

// readAt fills p from off, with as many requests in flight as credits and the bound
// allow. n < len(p) comes with an error, io.EOF at the end of the file.
func (h *handle) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	t, id, err := h.live(ctx)
	if err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		n, err := t.readRun(ctx, id, p[done:], off+int64(done), h.m.s.cfg.Limits.Pipeline)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// readRun reads until p is full, or a reply is short, or an error.
func (t *tree) readRun(ctx context.Context, id proto.FileID, p []byte, off int64, bound int) (int, error) {
	size := t.chunk(len(p), t.c.agreed.maxRead)
	if len(p) <= size {
		cl, _, err := t.startRead(ctx, id, p, off, waitCredits, nil)
		if err != nil {
			return 0, err
		}
		n, err := t.finishRead(ctx, cl)
		if n == 0 && err == nil {
			err = io.EOF
		}
		return n, err
	}
	var flights [window]flight
	head, tail, asked, landed := 0, 0, 0, 0
	var failed error
	for {
		for failed == nil && asked < len(p) && tail-head < window && asked-landed < bound {
			p2 := p[asked:min(asked+size, len(p))]
			wait, after := waitCredits, (*call)(nil)
			if tail > head {
				wait = onlyIfFree
				if t.c.send.vector && len(p) <= 2*size {
					after = flights[head%window].cl
				}
			}
			cl, n, err := t.startRead(ctx, id, p2, off+int64(asked), wait, after)
			if err == errBusy {
				break
			}
			if err != nil {
				failed = err
				break
			}
			flights[tail%window] = flight{cl, asked, n}
			tail++
			asked += n
		}
		if head == tail {
			if failed == errShort {
				failed = nil
			}
			return landed, failed
		}
		f := flights[head%window]
		head++
		n, err := t.finishRead(ctx, f.cl)
		if failed != nil {
			continue // only waited for: p must not be written to after the return
		}
		landed = f.at + n
		switch {
		case err != nil:
			failed = err
		case n == 0:
			failed = io.EOF
		case n < f.n:
			failed = errShort
		}
	}
}

// errShort ends a run of reads over a short reply, which is no error to the caller.
var errShort = errors.New("smb: short reply")

// readBuffer reads up to n bytes at off into pooled memory, with one request.
func (h *handle) readBuffer(ctx context.Context, off int64, n int) (tarn.Buffer, error) {
	t, id, err := h.live(ctx)
	if err != nil {
		return tarn.Buffer{}, err
	}
	cl := t.call(proto.CommandRead)
	mid, charge, n, err := t.book(ctx, cl, min(n, t.c.agreed.maxRead), waitCredits)
	if err != nil {
		return tarn.Buffer{}, err
	}
	// No destination: the reply's own buffer is what the caller gets.
	cl.expect = n
	cl.read = proto.ReadRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.read, t.guard, mid, charge); err != nil {
		return tarn.Buffer{}, err
	}
	if err := t.c.finish(ctx, cl); err != nil {
		return tarn.Buffer{}, err
	}
	if err := t.judgeRead(cl); err != nil {
		return tarn.Buffer{}, err
	}
	msg := cl.message()
	r, err := proto.DecodeReadResponse(msg)
	if err == nil && len(r.Data) > n {
		err = protocolError("more data than was asked for")
	}
	if err != nil {
		t.c.release(cl)
		return tarn.Buffer{}, t.malformed(err)
	}
	if len(r.Data) == 0 {
		t.c.release(cl)
		return tarn.Buffer{}, io.EOF
	}
	at := len(msg) - len(r.Data)
	if p, err := proto.DecodeReadPrefix(msg); err == nil {
		at = int(p.Offset)
	}
	buf := cl.reply.Narrow(at, at+len(r.Data))
	cl.reply = tarn.Buffer{}
	t.c.release(cl)
	return buf, nil
}
