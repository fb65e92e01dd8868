package smb

import (
	"context"
	"io"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// startWrite sends as many bytes of p as one request may move, to off, and returns how
// many that is. p is borrowed until finishWrite. after is as in startRead.
func (t *tree) startWrite(ctx context.Context, id proto.FileID, p []byte, off int64, w patience, after *call) (*call, int, error) {
	cl := t.call(proto.CommandWrite)
	cl.follows = after != nil
	mid, charge, n, err := t.book(ctx, cl, min(len(p), t.c.agreed.maxWrite), w)
	if err != nil {
		return nil, 0, err
	}
	cl.payload = p[:n]
	cl.write = proto.WriteRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.write, t.guard, mid, charge); err != nil {
		return nil, 0, err
	}
	if after != nil {
		after.mate = cl
	}
	return cl, n, nil
}

// finishWrite waits until the server says how much of n bytes it has. cl is released.
func (t *tree) finishWrite(ctx context.Context, cl *call, n int) (int, error) {
	if err := t.c.finish(ctx, cl); err != nil {
		return 0, err
	}
	if err := t.c.judge(cl, nil); err != nil {
		return 0, err
	}
	r, err := proto.DecodeWriteResponse(cl.message())
	if err == nil && int64(r.Count) > int64(n) {
		err = protocolError("it wrote more than it was given")
	}
	t.c.release(cl)
	if err != nil {
		return 0, t.malformed(err)
	}
	return int(r.Count), nil
}

// writeAt writes p to off, with as many requests in flight as credits and the bound
// allow, and returns how many bytes from its start the server has acknowledged. What
// is beyond that may be written or not when there is an error.
func (h *handle) writeAt(ctx context.Context, p []byte, off int64) (int, error) {
	t, id, err := h.live(ctx)
	if err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		n, err := t.writeRun(ctx, id, p[done:], off+int64(done), h.m.s.cfg.Limits.Pipeline)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// writeRun writes until p is written, or a request was carried out in part, or an error.
func (t *tree) writeRun(ctx context.Context, id proto.FileID, p []byte, off int64, bound int) (int, error) {
	size := t.chunk(len(p), t.c.agreed.maxWrite)
	var flights [window]flight
	head, tail, sent, landed := 0, 0, 0, 0
	var failed error
	for {
		for failed == nil && sent < len(p) && tail-head < window && sent-landed < bound {
			wait, after := waitCredits, (*call)(nil)
			if tail > head {
				wait = onlyIfFree
				if t.c.send.vector && len(p) <= 2*size {
					after = flights[head%window].cl
				}
			}
			cl, n, err := t.startWrite(ctx, id, p[sent:min(sent+size, len(p))], off+int64(sent), wait, after)
			if err == errBusy {
				break
			}
			if err != nil {
				failed = err
				break
			}
			flights[tail%window] = flight{cl, sent, n}
			tail++
			sent += n
		}
		if head == tail {
			if failed == errShort {
				failed = nil
			}
			return landed, failed
		}
		f := flights[head%window]
		head++
		n, err := t.finishWrite(ctx, f.cl, f.n)
		if failed != nil {
			continue
		}
		landed = f.at + n
		switch {
		case err != nil:
			failed = err
		case n == 0:
			failed = io.ErrShortWrite
		case n < f.n:
			failed = errShort
		}
	}
}

// appendAll writes p at the end of the file as it is now. Where the server does not
// append by itself (the handle may do nothing else), two who append at once may meet.
func (h *handle) appendAll(ctx context.Context, p []byte) (int, error) {
	end, err := h.size(ctx)
	if err != nil {
		return 0, err
	}
	return h.writeAt(ctx, p, end)
}
