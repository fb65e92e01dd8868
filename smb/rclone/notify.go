package rclone

import (
	"context"
	"errors"
	iofs "io/fs"
	"path"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// watchAgain is how long ChangeNotify waits after a failure before it watches again.
const watchAgain = 10 * time.Second

// ChangeNotify calls notify for changes below the root, until ctx ends or intervals is closed. The server reports them at once; an
// interval of zero stops it, any other begins it again. It returns when the server watches: what changed before is not reported.
func (f *Fs) ChangeNotify(ctx context.Context, notify func(string, fs.EntryType), intervals <-chan time.Duration) {
	stop := f.startWatching(ctx, notify)
	go func() {
		defer func() { stop() }()
		watching := true
		for {
			select {
			case <-ctx.Done():
				return
			case interval, ok := <-intervals:
				if !ok {
					return
				}
				if watching && interval == 0 {
					stop()
				} else if !watching && interval > 0 {
					stop = f.startWatching(ctx, notify)
				}
				watching = interval > 0
			}
		}
	}()
}

// startWatching reports changes on a goroutine of its own until the returned function is called. After a failure everything may have
// changed.
func (f *Fs) startWatching(ctx context.Context, notify func(string, fs.EntryType)) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	w, err := f.openWatch(ctx)
	go func() {
		for {
			if w != nil {
				err = w.report(ctx, notify)
			}
			if err == nil || ctx.Err() != nil {
				return // the server itself, which has no changes to report, or the end
			}
			fs.Debugf(f, "watching again: %v", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchAgain):
			}
			w, err = f.openWatch(ctx)
			notify("", fs.EntryDirectory)
		}
	}()
	return stop
}

// watcher is a *smb.Watcher.
type watcher interface {
	Next(ctx context.Context) ([]smb.Event, error)
	Close() error
}

// watch is a directory that the server watches, with the lease of its connection.
type watch struct {
	watcher
	fs    *Fs
	dir   string
	lease *lease
}

// openWatch watches the root; it returns nil for a remote that is a server.
func (f *Fs) openWatch(ctx context.Context) (*watch, error) {
	share, name := f.split("")
	if share == "" {
		return nil, nil
	}
	l, err := f.conns.get(ctx, f.opt.Enc.FromStandardName(share))
	if err != nil {
		return nil, err
	}
	dir := f.onServer(name)
	w, err := l.share.Watch(dir, smb.WatchFileNames|smb.WatchDirNames|smb.WatchSize|smb.WatchWrites|smb.WatchTree)
	if err != nil {
		l.release(err)
		return nil, err
	}
	l.wait()
	return &watch{w, f, dir, l}, nil
}

// report calls notify for each change until ctx ends or the watch fails, and closes the watch. Where changes are not known, because
// the server had too many or their names cannot be expressed, the root may have changed, and the watch continues.
func (w *watch) report(ctx context.Context, notify func(string, fs.EntryType)) (err error) {
	defer func() { w.close(err) }()
	for {
		events, err := w.Next(ctx)
		if ctx.Err() != nil {
			return err
		}
		for _, e := range events {
			kind, name := fs.EntryObject, w.fs.opt.Enc.ToStandardPath(e.Name)
			info, err := w.lease.share.Lstat(path.Join(w.dir, e.Name))
			switch {
			case err == nil && info.IsDir():
				kind = fs.EntryDirectory
			case err == nil && info.Mode()&iofs.ModeSymlink != 0 && w.fs.opt.Links:
				name += linkSuffix
			}
			notify(name, kind)
		}
		switch {
		case err == nil:
		case errors.Is(err, smb.ErrMissed), errors.Is(err, smb.ErrName):
			fs.Debugf(w.fs, "watching: %v", err)
			notify("", fs.EntryDirectory)
		default:
			return err
		}
	}
}

func (w *watch) close(err error) {
	w.watcher.Close()
	w.lease.release(err)
}
