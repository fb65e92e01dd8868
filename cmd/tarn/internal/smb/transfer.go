package smb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	err := a.each(ctx, p, "copy", a.copyFile)
	if err == nil && a.opts.verify {
		err = a.each(ctx, p, "verify", a.verifyFile)
	}
	if err == nil {
		err = p.leftOut()
	}
	return err
}

// leftOut is the error of a copy that leaves out files.
func (p *plan) leftOut() error {
	if p.skipped > 0 {
		return errReported
	}
	return nil
}

// smallFile is the size in bytes up to which a file's round trips take longer than its data: more such
// files are copied at a time.
const smallFile = 1 << 20

// smallAtOnce is how many files of at most smallFile bytes are copied for one larger one.
const smallAtOnce = 16

// workers is how many files are copied at a time.
func (a *app) workers(p *plan) int { return min(smallAtOnce*a.opts.jobs, 64, max(len(p.jobs), 1)) }

// each calls do for the jobs and shows the progress. do reports the bytes that it has processed to
// count. When the server is lost and cannot be reconnected to, the remaining jobs are not tried.
func (a *app) each(ctx context.Context, p *plan, action string, do func(ctx context.Context, j *job, count func(int64)) error) error {
	m := a.startMeter(p, action)
	inner, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	queue := make(chan *job)
	large := make(chan struct{}, a.opts.jobs)
	var wg sync.WaitGroup
	var bad atomic.Bool
	for range a.workers(p) {
		wg.Go(func() {
			for j := range queue {
				if j.size > smallFile {
					large <- struct{}{}
				}
				err := a.attempt(inner, j, m, do)
				if j.size > smallFile {
					<-large
				}
				switch {
				case err == nil:
					m.file()
					a.reportFile(action, j, nil)
				case inner.Err() != nil: // reported where it ended
				case lost(err):
					giveUp(err)
				default:
					bad.Store(true)
					a.reportFile(action, j, err)
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
		return fmt.Errorf("%w; repeat the command to continue the copy (with -T where the target is a directory that it has made)", context.Cause(inner))
	case bad.Load():
		return errReported
	}
	return nil
}

// reportFile reports one file; err, if not nil, is why it was not copied.
func (a *app) reportFile(action string, j *job, err error) {
	e := event{Action: action, Source: j.from.label(j.fromName), Target: j.to.label(j.toName), Bytes: j.size}
	switch {
	case err != nil:
		a.complain("%s: %s", e.Source, explain(err))
		e.Error = err.Error()
	case j.present && action == "copy":
		e.Action = "skip"
	}
	if a.opts.json || a.opts.progress && err == nil && e.Action != "skip" {
		a.event(e)
	}
}

// attempt runs a job, and continues it when the connection breaks.
func (a *app) attempt(ctx context.Context, j *job, m *meter, do func(ctx context.Context, j *job, count func(int64)) error) error {
	var counted atomic.Int64
	first := true
	return a.untilKept(ctx, func() error {
		m.add(-counted.Swap(0))
		if !first {
			j.lookForPart()
		}
		first = false
		return do(ctx, j, func(n int64) { counted.Add(n); m.add(n) })
	})
}

// untilKept runs do. When the connection breaks it runs it again after a pause: the session reconnects by itself when the server is back.
func (a *app) untilKept(ctx context.Context, do func() error) error {
	for _, wait := range a.waits {
		if err := do(); !lost(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return do()
}

// lost reports whether an error is about the connection and not about a file.
func lost(err error) bool {
	return errors.Is(err, client.ErrConnLost) || errors.Is(err, client.ErrHandleLost)
}

// beside is a name in the directory of the target.
func (j *job) beside(name string) string { return path.Join(path.Dir(j.toName), name) }

// lookForPart finds what an attempt whose connection broke has left.
func (j *job) lookForPart() {
	info, err := j.to.Lstat(j.beside(j.part))
	switch {
	case err == nil:
		j.left, j.partThere, j.partSize = "", true, min(info.Size(), j.size)
	case errors.Is(err, fs.ErrNotExist) && j.left == "":
		j.partThere, j.partSize = false, 0
	}
}

// takePart gives a part that an earlier run has left this run's name for it.
func (j *job) takePart(part string) error {
	if j.left == "" {
		return nil
	}
	err := j.to.RenameNew(j.beside(j.left), part)
	if errors.Is(err, fs.ErrNotExist) { // another run has taken it
		j.left, j.partSize = "", 0
		return nil
	}
	if err == nil {
		j.left, j.partThere = "", true
	}
	return err
}

// copyFile copies one file into a part, and gives it its name when all of it is there, on stable
// storage, and the source is what it was. A part that an interruption or a lost connection leaves, or one
// that is complete, is continued with next time; others are removed.
func (a *app) copyFile(ctx context.Context, j *job, count func(int64)) error {
	if j.present {
		count(0)
		return nil
	}
	if j.finishing && j.arrived() {
		return nil // the answer to the last step was lost
	}
	part := j.beside(j.part)
	err := j.takePart(part)
	if err == nil && j.targetThere {
		err = j.writable()
	}
	switch {
	case err != nil:
	case a.isWhole(j):
		err = a.copyWhole(ctx, j, part, count)
	default:
		err = a.copyParts(ctx, j, part, count)
	}
	if err == nil {
		return nil
	}
	_, kept := a.partKey()
	interrupted := ctx.Err() != nil || lost(err)
	switch {
	case !kept || !interrupted && (!j.finishing || errors.Is(err, client.ErrName)):
		a.removePart(ctx, j, part)
	case !interrupted && !errors.Is(err, errTaken):
		err = fmt.Errorf("%w; the copy is complete in %s, and the repeated command goes on from there", err, j.to.label(part))
	}
	return err
}

// removePart removes a part, also when the command is interrupted. One that cannot be removed is reported.
func (a *app) removePart(ctx context.Context, j *job, part string) {
	var err error
	if r, ok := j.to.(*remote); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		err = r.share.WithContext(ctx).Remove(r.full(part))
	} else {
		err = j.to.Remove(part)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, client.ErrName) {
		a.complain("left behind: %s: %s", j.to.label(part), explain(err))
	}
}

// removeTimeout bounds how long an interrupted command waits for the server.
const removeTimeout = 5 * time.Second

// writable returns why the target, which exists, cannot be written to.
func (j *job) writable() error {
	out, err := j.to.Rewrite(j.toName)
	if err != nil {
		return err
	}
	return out.Close()
}

// arrived reports whether the target is what the source was.
func (j *job) arrived() bool {
	info, err := j.to.Lstat(j.toName)
	return err == nil && info.Mode().IsRegular() && info.Size() == j.size && info.ModTime().Truncate(timeUnit).Equal(j.modified.Truncate(timeUnit))
}

// finish makes the part the target: by its name if that is free, otherwise by copying it into the file that is there.
// What is open for a moment, as files are that a virus scanner looks at, is tried again.
func (a *app) finish(ctx context.Context, j *job, part string) error {
	j.finishing = true
	var err error
	for _, wait := range append([]time.Duration{0}, a.waits...) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		if !j.targetThere {
			if err = j.to.Chtimes(part, j.modified); err == nil {
				err = j.to.RenameNew(part, j.toName)
			}
			j.targetThere = errors.Is(err, fs.ErrExist) // it was made meanwhile
		}
		if j.targetThere {
			err = a.replace(ctx, j, part)
		}
		if !inUse(err) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := j.to.Lstat(part); errors.Is(gone, fs.ErrNotExist) {
			if j.arrived() { // the answer to an earlier attempt was lost
				return nil
			}
			return errTaken
		}
	}
	return err
}

var errTaken = errors.New("another run of the same command has taken over the copy of it, or removed its unfinished file")

// inUse reports whether a server refuses something that it may permit a moment later.
func inUse(err error) bool {
	var status client.Status
	if !errors.As(err, &status) {
		return false
	}
	switch status.Error() {
	case "STATUS_SHARING_VIOLATION", "STATUS_FILE_LOCK_CONFLICT", "STATUS_USER_MAPPED_FILE", "STATUS_DELETE_PENDING":
		return true
	}
	return false
}

// replace gives a file that exists the content of the part, and removes the part. Everything else about the file stays. The server
// copies where it can. When this fails, the part is complete.
func (a *app) replace(ctx context.Context, j *job, part string) (err error) {
	in, err := j.to.Open(part)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := j.to.Rewrite(j.toName)
	if err != nil {
		return err
	}
	err = errors.ErrUnsupported
	if f, ok := out.(*client.File); ok {
		_, err = f.CopyFrom(in.(*client.File))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = j.rewrite(ctx, out, in)
	}
	if err == nil {
		err = out.Sync()
	}
	f, onServer := out.(*client.File)
	if err == nil && onServer {
		err = f.Chtimes(time.Time{}, j.modified) // another file may get the name when this one is closed
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err == nil && !onServer {
		err = j.to.Chtimes(j.toName, j.modified)
	}
	if err == nil {
		in.Close() // some servers remove no file that is open
		a.removePart(ctx, j, part)
	}
	return err
}

// rewrite copies a complete part into a file.
func (j *job) rewrite(ctx context.Context, out sink, in source) error {
	pieces, err := j.pieces(in, out, 0)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return err
	}
	had, err := roomTaken(out, info.Size())
	if err != nil {
		return err
	}
	more := outside(pieces, had)
	if err := extend(ctx, out, in, more, info.Size()); err != nil {
		return err
	}
	if _, err = copyPieces(out, in, outside(pieces, more), uncounted(ctx)); err != nil {
		return err
	}
	if err = out.Truncate(j.size); err != nil {
		return err
	}
	if err = punch(ctx, out, outside(before(had, j.size), pieces)); err != nil {
		return err
	}
	info, err = out.Stat()
	if err == nil && info.Size() != j.size {
		err = errNotCut
	}
	return err
}

// errNotCut is returned for servers that ignore truncation, as impacket's does.
var errNotCut = errors.New("the server has not made the file shorter: remove it, and repeat the command")

// extend writes what a file of size bytes needs more room for on its disk. It runs before anything is overwritten: if the disk is full, the
// file stays as it was.
func extend(ctx context.Context, out sink, in source, more []client.Range, size int64) error {
	if length(more) == 0 {
		return nil
	}
	_, err := copyPieces(out, in, more, uncounted(ctx))
	if err == nil {
		err = out.Sync() // file systems of a network may report a full disk only here
	}
	if err != nil {
		return errors.Join(err, out.Truncate(size), punch(context.WithoutCancel(ctx), out, before(more, size)))
	}
	return nil
}

// uncounted counts nothing, and stops a copy whose context has ended.
func uncounted(ctx context.Context) counter { return counter{ctx, func(int64) {}} }

// wholeFile is up to how many bytes a file is read and written at once: what package smb does in one
// round trip.
const wholeFile = 64 << 10

// isWhole reports whether a file is copied at once. A FLUSH takes more than one step.
func (a *app) isWhole(j *job) bool {
	if j.size > wholeFile || j.partThere {
		return false
	}
	_, toServer := j.to.(*remote)
	return !toServer || !a.opts.flush
}

// copyWhole copies a file at once.
func (a *app) copyWhole(ctx context.Context, j *job, part string, count func(int64)) error {
	data, info, err := j.from.ReadWhole(j.fromName, j.size)
	if err != nil {
		return err
	}
	if int64(len(data)) != j.size || !j.same(info) {
		return errChanged
	}
	name := j.toName
	if j.targetThere {
		name = part
	}
	err = j.to.WriteNew(part, name, data, j.modified)
	if errors.Is(err, fs.ErrExist) { // an earlier attempt has made it, or the part, or another program the file
		if name != part && j.arrived() {
			count(j.size)
			return nil
		}
		j.to.Remove(part) // the next step fails, too, if this does
		if _, err := j.to.Lstat(j.toName); err == nil {
			j.targetThere, name = true, part
		}
		err = j.to.WriteNew(part, name, data, j.modified)
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return a.copyParts(ctx, j, part, count)
	case err != nil:
		return err
	}
	count(j.size)
	if j.targetThere {
		return a.finish(ctx, j, part)
	}
	return nil
}

// copyParts copies a file in as many parts as it takes.
func (a *app) copyParts(ctx context.Context, j *job, part string, count func(int64)) error {
	err := a.fill(ctx, j, part, count)
	if err == nil {
		err = j.unchanged()
	}
	if err == nil {
		err = a.finish(ctx, j, part)
	}
	return err
}

// unchanged compares the source with what it was when the copy was planned.
func (j *job) unchanged() error {
	info, err := j.from.Lstat(j.fromName)
	if err != nil {
		return err
	}
	if !j.same(info) {
		return errChanged
	}
	return nil
}

// same reports whether info describes what was planned to be copied. impacket's server reports a change time in listings alone.
func (j *job) same(info fs.FileInfo) bool {
	changed := changeTime(info)
	return info.Mode().IsRegular() && info.Size() == j.size && info.ModTime().Equal(j.modified) &&
		(changed.Equal(j.changed) || changed.IsZero() || j.changed.IsZero())
}

// openPart opens the part to continue, or makes it. One that is there unexpectedly is this user's,
// as no other user can know its name: another attempt of this copy has left it.
func (j *job) openPart(part string) (sink, error) {
	if !j.partThere {
		perm := fs.FileMode(0o666)
		if j.targetThere {
			perm = privatePart
		}
		out, err := j.to.CreatePart(part, perm)
		if !errors.Is(err, fs.ErrExist) {
			return out, err
		}
		j.partThere, j.partSize = true, 0
	}
	return j.to.ReopenPart(part)
}

// fill brings the part to the length of the source, from where it was left, and to stable storage.
func (a *app) fill(ctx context.Context, j *job, part string, count func(int64)) (err error) {
	in, err := j.from.Open(j.fromName)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := j.openPart(part)
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
	pieces, err := j.pieces(in, out, start)
	if err != nil {
		return err
	}
	count(j.size - length(pieces)) // what is there already, and holes
	_, err = copyPieces(out, in, pieces, counter{ctx, count})
	if errors.Is(err, io.ErrUnexpectedEOF) && !lost(err) {
		err = errChanged
	}
	if err == nil && !endsWith(pieces, j.size) {
		err = out.Truncate(j.size)
	}
	if err == nil {
		err = out.Sync()
	}
	return err
}

// counter counts bytes, and stops a copy whose context has ended.
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
