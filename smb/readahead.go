package smb

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn"
)

var (
	errIsDirectory = errors.New("is a directory")
	errWhence      = errors.New("bad whence")
)

// aheadSize is the length of one request that reads ahead.
const aheadSize = 512 << 10

// aheadMost bounds the memory that reading ahead in one file takes.
const aheadMost = 8 << 20

// ahead is one request of the read-ahead: its buffer and, until it has landed, its call.
type aheadPart struct {
	buf tarn.Buffer
	cl  *call
	off int64
	n   int // asked for; once landed, what there is
	err error
}

// readAhead holds requests for what comes next in a file read in order. It belongs to
// whoever has the handle's turn.
type readAhead struct {
	t     *tree // whose requests they are
	parts []aheadPart
	at    int64 // where the next part to ask for begins
	seen  int64 // where the last read ended: the next one in order begins there
	run   int   // reads in order so far
	depth int   // bytes to keep in flight
}

// readNext is Read with the turn taken.
func (h *handle) readNext(ctx context.Context, p []byte) (int, error) {
	a := &h.ahead
	if h.off != a.seen || a.t != nil && !a.t.c.alive() {
		h.dropAhead()
		a.run = 0
	}
	if a.run++; a.run < 3 || h.m.s.cfg.Limits.Pipeline < aheadSize {
		n, err := h.readSome(ctx, p)
		h.off += int64(n)
		a.seen = h.off
		return n, err
	}
	n, err := h.readAhead(ctx, p)
	if n == 0 && h.revived(ctx, err) {
		h.dropAhead()
		n, err = h.readSome(ctx, p)
	}
	h.off += int64(n)
	a.seen = h.off
	return n, err
}

// readSome reads without looking ahead; it returns fewer bytes only at the end.
func (h *handle) readSome(ctx context.Context, p []byte) (int, error) {
	n, err := h.readAt(ctx, p, h.off)
	if h.revived(ctx, err) {
		n, err = h.readAt(ctx, p, h.off)
	}
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// readAhead takes from the first part and keeps requests in flight behind it.
func (h *handle) readAhead(ctx context.Context, p []byte) (int, error) {
	a := &h.ahead
	if len(a.parts) == 0 {
		t, _, err := h.live(ctx)
		if err != nil {
			return 0, err
		}
		a.t, a.at = t, h.off
		if a.depth == 0 {
			a.depth = 2 * aheadSize
		}
	}
	if err := h.lookAhead(ctx); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) && len(a.parts) > 0 {
		first := &a.parts[0]
		if first.cl != nil {
			if done > 0 && !first.cl.ready() {
				return done, nil // what is there is enough for now
			}
			n, err := a.t.finishRead(ctx, first.cl)
			asked := first.n
			first.cl, first.n, first.err = nil, n, err
			if err != nil || n < asked {
				a.cut(n, err)
			}
		}
		if first.n > 0 {
			n := copy(p[done:], first.buf.Bytes()[:first.n])
			done += n
			first.n -= n
			first.off += int64(n)
			first.buf = first.buf.Narrow(n, first.buf.Len())
		}
		if first.n == 0 {
			err := first.err
			first.buf.Free()
			a.parts = append(a.parts[:0], a.parts[1:]...)
			if err != nil {
				h.dropAhead()
				if done > 0 && (err == io.EOF || h.mayRevive(err)) {
					return done, nil
				}
				return done, err
			}
			if err := h.lookAhead(ctx); err != nil {
				return done, err
			}
		}
	}
	if done == 0 {
		return h.readSome(ctx, p)
	}
	return done, nil
}

// lookAhead asks for parts until enough is in flight.
func (h *handle) lookAhead(ctx context.Context) error {
	a := &h.ahead
	if len(a.parts) > 0 && a.parts[len(a.parts)-1].err != nil {
		return nil
	}
	_, id, err := h.live(ctx)
	if err != nil {
		return err
	}
	size := min(aheadSize, a.t.c.agreed.maxRead)
	for a.inFlight() < a.depth {
		wait := waitCredits
		if len(a.parts) > 0 {
			wait = onlyIfFree
		}
		buf := h.m.s.cfg.Pool.Get(size)
		cl, n, err := a.t.startRead(ctx, id, buf.Bytes(), a.at, wait, nil)
		if err != nil {
			buf.Free()
			if err == errBusy {
				return nil
			}
			return err
		}
		a.parts = append(a.parts, aheadPart{buf: buf, cl: cl, off: a.at, n: n})
		a.at += int64(n)
	}
	a.depth = min(a.depth*2, h.m.s.cfg.Limits.Pipeline, aheadMost)
	return nil
}

func (a *readAhead) inFlight() int {
	n := 0
	for i := range a.parts {
		n += a.parts[i].n
	}
	return n
}

// cut drops everything behind the first part, which came short with err or without.
func (a *readAhead) cut(n int, err error) {
	rest := a.parts[1:]
	a.parts = a.parts[:1]
	a.discard(rest)
	a.at = a.parts[0].off + int64(n)
	if err == nil && n == 0 {
		a.parts[0].err = io.EOF
	}
}

// discard waits for parts nobody wants, or cancels them, and frees their memory.
func (a *readAhead) discard(parts []aheadPart) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range parts {
		if cl := parts[i].cl; cl != nil {
			a.t.finishRead(gone, cl) // diverts what is coming: the memory is free afterwards
		}
		parts[i].buf.Free()
		parts[i] = aheadPart{}
	}
}

// stop drops all that was read ahead.
func (a *readAhead) stop(*conn) {
	parts := a.parts
	a.parts = a.parts[:0]
	a.discard(parts)
	a.depth, a.run = 0, 0
}

// dropAhead is stop for whoever has the turn and changed the file or the position.
func (h *handle) dropAhead() { h.ahead.stop(nil) }

// ready reports whether the call's reply has been signalled.
func (cl *call) ready() bool { return len(cl.done) > 0 }
