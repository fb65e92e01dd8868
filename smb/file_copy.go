package smb

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn"
)

// streamSize is the length of one request of ReadFrom.
const streamSize = 512 << 10

// WriteTo writes the file from its position on to w, as io.WriterTo, with requests in
// flight ahead of what w takes. The slices given to w are views of receive buffers.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	h := f.h
	if h.isDir {
		return 0, f.wrap("read", errIsDirectory)
	}
	if err := h.take(ctx); err != nil {
		return 0, f.wrap("read", err)
	}
	defer h.give()
	buf := h.m.s.cfg.Pool.Get(aheadSize)
	defer buf.Free()
	h.ahead.seen, h.ahead.run = h.off, max(h.ahead.run, 2) // it is going to be read in order
	var total int64
	for {
		n, err := h.readNext(ctx, buf.Bytes())
		if n > 0 {
			m, werr := w.Write(buf.Bytes()[:n])
			total += int64(m)
			if werr == nil && m < n {
				werr = io.ErrShortWrite
			}
			if werr != nil {
				h.off -= int64(n - m)
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, f.wrap("read", err)
		}
	}
}

// ReadFrom writes all that r has at the file's position, as io.ReaderFrom, with requests
// in flight while r is read. The count is what the server has acknowledged; r may have
// been read further when there is an error.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	h := f.h
	if err := h.take(ctx); err != nil {
		return 0, f.wrap("write", err)
	}
	defer h.give()
	h.dropAhead()
	up := upload{h: h, f: f}
	n, err := up.run(ctx, r)
	if errors.As(err, new(*sourceError)) {
		return n, err.(*sourceError).err
	}
	return n, f.wrap("write", err)
}

// sourceError tells the error of the reader from those of the file.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

// upload is one ReadFrom: requests in flight, in order, each with its buffer.
type upload struct {
	h       *handle
	f       *File
	t       *tree
	flights []uploadPart
	done    int64
}

type uploadPart struct {
	buf tarn.Buffer
	cl  *call
	off int64
	n   int
}

func (u *upload) run(ctx context.Context, r io.Reader) (int64, error) {
	h := u.h
	defer u.abandon()
	next := h.off
	for {
		buf := h.m.s.cfg.Pool.Get(streamSize)
		n, rerr := io.ReadFull(r, buf.Bytes())
		if n == 0 {
			buf.Free()
		} else if err := u.send(ctx, buf.Narrow(0, n), next); err != nil {
			return u.done, err
		}
		next += int64(n)
		if rerr != nil {
			if err := u.drain(ctx); err != nil {
				return u.done, err
			}
			if rerr == io.EOF || rerr == io.ErrUnexpectedEOF {
				return u.done, nil
			}
			return u.done, &sourceError{rerr}
		}
	}
}

// send takes ownership of buf and writes it at off, in flight if it may be.
func (u *upload) send(ctx context.Context, buf tarn.Buffer, off int64) error {
	h := u.h
	if h.append {
		defer buf.Free()
		n, err := h.appendAll(ctx, buf.Bytes())
		u.done += int64(n)
		return err
	}
	for len(u.flights)*streamSize >= h.m.s.cfg.Limits.Pipeline {
		if err := u.harvest(ctx); err != nil {
			buf.Free()
			return err
		}
	}
	t, id, err := h.live(ctx)
	if err != nil {
		buf.Free()
		return err
	}
	for {
		wait := onlyIfFree
		if len(u.flights) == 0 {
			wait = waitCredits
		}
		cl, n, err := t.startWrite(ctx, id, buf.Bytes(), off, wait, nil)
		switch {
		case err == errBusy:
			if err := u.harvest(ctx); err != nil {
				buf.Free()
				return err
			}
			continue
		case err != nil:
			buf.Free()
			return err
		}
		u.t = t
		if n == buf.Len() {
			u.flights = append(u.flights, uploadPart{buf, cl, off, n})
			return nil
		}
		head, tail := buf.Split(n)
		u.flights = append(u.flights, uploadPart{head, cl, off, n})
		buf, off = tail, off+int64(n)
	}
}

// harvest waits for the oldest request. What the server wrote in part, or a broken
// connection left open, is written once more.
func (u *upload) harvest(ctx context.Context) error {
	p := u.flights[0]
	u.flights = append(u.flights[:0], u.flights[1:]...)
	n, err := u.t.finishWrite(ctx, p.cl, p.n)
	if err == nil && n < p.n {
		var m int
		m, err = u.f.writeAt(ctx, p.buf.Bytes()[n:], p.off+int64(n))
		n += m
	} else if u.h.revived(ctx, err) {
		n, err = u.f.writeAt(ctx, p.buf.Bytes(), p.off)
	}
	p.buf.Free()
	u.done += int64(n)
	u.h.off += int64(n)
	return err
}

func (u *upload) drain(ctx context.Context) error {
	for len(u.flights) > 0 {
		if err := u.harvest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// abandon waits for nobody.
func (u *upload) abandon() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range u.flights {
		u.t.finishWrite(gone, p.cl, p.n)
		p.buf.Free()
	}
	u.flights = nil
}
