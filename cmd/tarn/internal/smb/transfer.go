package smb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/tarn-go/tarn/smb"
)

// errChanged is matched when a file changed while it was being copied.
var errChanged = errors.New("changed while it was being copied")

// carryOut does the plan, several files at a time. Files that fail are reported and do
// not stop the others.
func (a *app) carryOut(ctx context.Context, p *plan) error {
	err := a.each(ctx, p, "copied", a.copyFile)
	if err == nil && a.opts.verify {
		err = a.each(ctx, p, "verified", a.verifyFile)
	}
	return err
}

// each runs do over the jobs and shows how it goes. do reports the bytes it has done to
// count. When the server is gone for good, what is left is not tried.
func (a *app) each(ctx context.Context, p *plan, done string, do func(ctx context.Context, j *job, count func(int64)) error) error {
	m := a.startMeter(p.total, len(p.jobs), done)
	inner, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	queue := make(chan *job)
	var wg sync.WaitGroup
	var bad atomic.Bool
	for range min(a.opts.jobs, max(len(p.jobs), 1)) {
		wg.Go(func() {
			for j := range queue {
				err := a.attempt(inner, j, m, do)
				switch {
				case err == nil:
					m.file()
				case inner.Err() != nil: // it has been said, or will be
				case lost(err):
					giveUp(err)
				default:
					bad.Store(true)
					a.complain("%s: %s", j.from.label(j.fromName), explain(err))
				}
			}
		})
	}
feed:
	for _, j := range p.jobs {
		select {
		case queue <- j:
		case <-inner.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	a.stopMeter(m)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case inner.Err() != nil:
		return fmt.Errorf("%w; the same command again goes on where this one stopped", context.Cause(inner))
	case bad.Load():
		return errReported
	}
	return nil
}

// attempt does a job and, when the connection breaks, does it again after a while: the
// session comes back by itself where the server does.
func (a *app) attempt(ctx context.Context, j *job, m *meter, do func(ctx context.Context, j *job, count func(int64)) error) error {
	for _, wait := range a.waits {
		var counted atomic.Int64
		err := do(ctx, j, func(n int64) { counted.Add(n); m.add(n) })
		if err == nil || !lost(err) {
			return err
		}
		m.add(-counted.Load())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		if info, err := j.to.Lstat(path.Join(path.Dir(j.toName), j.part)); err == nil {
			j.partThere, j.partSize = true, min(info.Size(), j.size)
		}
	}
	return do(ctx, j, m.add)
}

// lost reports whether an error is about the connection and not about a file.
func lost(err error) bool {
	return errors.Is(err, client.ErrConnLost) || errors.Is(err, client.ErrHandleLost)
}

// copyFile copies one file into a part and gives it its name when it is whole.
func (a *app) copyFile(ctx context.Context, j *job, count func(int64)) error {
	if j.present {
		count(j.size)
		return nil
	}
	part := path.Join(path.Dir(j.toName), j.part)
	whole, err := a.serverSide(j, part, count)
	if err == nil && !whole {
		err = a.fill(ctx, j, part, count)
	}
	if err != nil {
		return err
	}
	if err := j.to.Chtimes(part, j.modified); err != nil {
		return err
	}
	return j.to.Rename(part, j.toName)
}

// serverSide lets the server copy when source and target are on one share, and reports
// whether it did: not every server can.
func (a *app) serverSide(j *job, part string, count func(int64)) (bool, error) {
	from, ok := j.from.(*remote)
	to, ok2 := j.to.(*remote)
	if !ok || !ok2 || from.share != to.share {
		return false, nil
	}
	n, err := from.share.Copy(to.full(part), from.full(j.fromName))
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	if err == nil && n != j.size {
		err = errChanged
	}
	if err == nil {
		count(n)
	}
	return err == nil, err
}

// fill brings the part to the length of the source, from where it was left.
func (a *app) fill(ctx context.Context, j *job, part string, count func(int64)) (err error) {
	in, err := j.from.Open(j.fromName)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := j.to.OpenPart(part)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	start := max(j.partSize-j.to.rewind(), 0)
	if j.partThere {
		if err := out.Truncate(start); err != nil {
			return err
		}
	}
	if _, err := in.Seek(start, io.SeekStart); err != nil {
		return err
	}
	if _, err := out.Seek(start, io.SeekStart); err != nil {
		return err
	}
	count(start)
	n, err := a.pour(ctx, out, in, count)
	if err == nil && start+n != j.size {
		err = errChanged
	}
	return err
}

// pour copies the rest of in to out. The side on a server does it, because it keeps many
// requests in flight; between servers the writing one, and the other reads ahead.
func (a *app) pour(ctx context.Context, out sink, in source, count func(int64)) (int64, error) {
	tick := counter{ctx: ctx, count: count}
	if _, ok := out.(*client.File); ok {
		return out.ReadFrom(readCounter{in, tick})
	}
	return in.WriteTo(writeCounter{out, tick})
}

// counter reports bytes, and stops a copy whose context is over.
type counter struct {
	ctx   context.Context
	count func(int64)
}

func (c counter) done(n int, err error) (int, error) {
	c.count(int64(n))
	if err == nil {
		err = c.ctx.Err()
	}
	return n, err
}

type writeCounter struct {
	io.Writer
	counter
}

func (w writeCounter) Write(p []byte) (int, error) { return w.done(w.Writer.Write(p)) }

type readCounter struct {
	io.Reader
	counter
}

func (r readCounter) Read(p []byte) (int, error) { return r.done(r.Reader.Read(p)) }

// verifyFile reads both sides again and compares their checksums.
func (a *app) verifyFile(ctx context.Context, j *job, count func(int64)) error {
	type sum struct {
		hash [sha256.Size]byte
		err  error
	}
	theirs := make(chan sum, 1)
	go func() {
		h, err := checksum(ctx, j.from, j.fromName, func(int64) {})
		theirs <- sum{h, err}
	}()
	ours, err := checksum(ctx, j.to, j.toName, count)
	other := <-theirs
	if err = errors.Join(err, other.err); err != nil {
		return err
	}
	if ours != other.hash {
		return fmt.Errorf("the copy differs: SHA-256 %x, not %x", ours[:8], other.hash[:8])
	}
	return nil
}

func checksum(ctx context.Context, t tree, name string, count func(int64)) (sum [sha256.Size]byte, err error) {
	in, err := t.Open(name)
	if err != nil {
		return sum, err
	}
	defer in.Close()
	h := sha256.New()
	_, err = in.WriteTo(writeCounter{h, counter{ctx, count}})
	h.Sum(sum[:0])
	return sum, err
}
