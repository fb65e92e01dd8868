package smb

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// WatchFlags say which changes in a directory to report.
type WatchFlags uint32

// Changes to report (MS-SMB2 2.2.35). WatchTree includes the directories below.
const (
	WatchFileNames  WatchFlags = 0x001
	WatchDirNames   WatchFlags = 0x002
	WatchAttributes WatchFlags = 0x004
	WatchSize       WatchFlags = 0x008
	WatchWrites     WatchFlags = 0x010
	WatchAccess     WatchFlags = 0x020
	WatchCreation   WatchFlags = 0x040
	WatchSecurity   WatchFlags = 0x100
	WatchTree       WatchFlags = 1 << 31
	// WatchAll is all changes in the directory itself, without reads.
	WatchAll = WatchFileNames | WatchDirNames | WatchAttributes | WatchSize | WatchWrites | WatchCreation | WatchSecurity
)

// EventKind is the kind of a change.
type EventKind uint8

// Kinds of events (MS-FSCC 2.7.1).
const (
	Added EventKind = iota + 1
	Removed
	Modified
	RenamedFrom // the old name
	RenamedTo   // the new name
)

// String is the kind in one word.
func (k EventKind) String() string {
	names := [...]string{"unknown", "added", "removed", "modified", "renamed from", "renamed to"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Event is one change in a watched directory.
type Event struct {
	Kind EventKind
	Name string // relative to the directory, with "/"
}

// ErrMissed is returned by Watcher.Next when changes were not reported, because there were more than the server could
// report, or because the connection was lost meanwhile: read the directory again. The watch continues.
var ErrMissed = errors.New("smb: some changes were not reported")

// notifyRoom is how many bytes of changes one reply may have.
const notifyRoom = 64 << 10

// Watcher reports changes in a directory. The server collects them from Share.Watch on, also between calls of Next. Next is for one
// goroutine at a time; Close may be called from any other, and has to be called: a Watcher may hold a message of the server. After a
// loss of the connection Next opens the
// directory again by its name.
type Watcher struct {
	f    *File
	req  proto.ChangeNotifyRequest
	stop context.CancelFunc
	done context.Context

	on      *tree         // where the server collects changes; nil: nowhere
	leftOut *leftOutError // of the changes that the last Next returned, for the next one; nil: none

	pending atomic.Pointer[conn.Call] // sent by Watch, or by a Next that returned ErrMissed, for the next Next; nil: none
}

// Watch starts to watch the named directory. The server collects changes from now on: a directory that is read after Watch, before
// the first Next, is complete. Samba begins to collect a moment after it has the request (docs/reference/smb.md, "What is not there, and
// limits").
func (s *Share) Watch(name string, flags WatchFlags) (*Watcher, error) {
	var f *File
	err := s.run(operation{kind: opOpen, name: name, do: func(ctx context.Context, t view, remote string) error {
		h, err := s.open(ctx, t, name, remote, listRequest(remote))
		if err == nil {
			f = &File{h: h, ctx: s.ctx}
		}
		return err
	}})
	if err != nil {
		return nil, pathError("watch", name, err)
	}
	w := &Watcher{f: f, req: proto.ChangeNotifyRequest{Filter: proto.NotifyFilter(flags &^ WatchTree)}}
	if flags&WatchTree != 0 {
		w.req.Flags = proto.NotifyTree
	}
	w.done, w.stop = context.WithCancel(s.ctx)
	err = f.h.run(s.ctx, opWatch, func(t *tree, id proto.FileID) error { return w.start(s.ctx, t, id) })
	if err != nil && !errors.Is(err, ErrConnLost) { // after a loss the first Next asks, and reports it
		w.Close()
		return nil, pathError("watch", name, err)
	}
	return w, nil
}

// Next waits for changes and returns at least one. A change whose name leads out of the directory, or cannot be expressed, is left
// out: behind the others of its reply, Next returns an error that matches ErrName, and the watch continues. After Close it fails with ErrClosed; ErrMissed means that
// some changes were not reported. When the connection is lost while Next waits, it fails with ErrConnLost; when the
// server closes the directory or the share, with ErrHandleLost. The first Next after a loss fails with ErrMissed, when the server has
// the request to collect changes again: a directory that is read after it is complete, as after Watch.
func (w *Watcher) Next(ctx context.Context) ([]Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.done, cancel)()
	events, err := w.next(ctx)
	switch {
	case err == nil || w.done.Err() == nil:
	case w.f.ctx.Err() == nil:
		err = ErrClosed
	case errors.Is(err, context.Canceled): // because the share's context has ended, by its deadline perhaps
		err = conn.ContextError(w.f.ctx)
	}
	return events, w.f.wrap("watch", err)
}

func (w *Watcher) next(ctx context.Context) ([]Event, error) {
	if err := w.leftOut; err != nil {
		w.leftOut = nil
		return nil, err
	}
	if cl := w.take(); cl != nil {
		if w.on.Alive() {
			err := cl.Finish(ctx, proto.StatusNotifyEnumDir, proto.StatusNotifyCleanup)
			if err == nil {
				return w.events(w.on, cl)
			}
			if !errors.Is(err, conn.ErrReauthenticated) {
				return nil, err
			}
			w.on = nil // the session had expired, so the request was refused
		} else {
			abandonCall(cl)
		}
	}
	var events []Event
	err := w.f.h.run(ctx, opWatch, func(t *tree, id proto.FileID) (err error) {
		events, err = w.ask(ctx, t, id)
		return err
	})
	return events, err
}

// ask requests the changes of the directory, which is open as id.
func (w *Watcher) ask(ctx context.Context, t *tree, id proto.FileID) ([]Event, error) {
	if w.on != t {
		if err := w.start(ctx, t, id); err != nil {
			return nil, err
		}
		return nil, ErrMissed
	}
	cl, req := w.request(t, id)
	if err := t.RoundTrip(ctx, cl, &req, proto.StatusNotifyEnumDir, proto.StatusNotifyCleanup); err != nil {
		return nil, err
	}
	return w.events(t, cl)
}

// start has the server collect changes, and leaves the request to the next Next. The server collects from the request on. It is sent
// before the caller reads the directory, so that no change is between the two.
func (w *Watcher) start(ctx context.Context, t *tree, id proto.FileID) error {
	cl, req := w.request(t, id)
	if err := t.Start(ctx, cl, &req, conn.WaitForCredits); err != nil {
		return err
	}
	w.on = t
	w.keep(cl)
	return nil
}

func (w *Watcher) request(t *tree, id proto.FileID) (*conn.Call, proto.ChangeNotifyRequest) {
	cl := t.Call(proto.CommandChangeNotify)
	req := w.req
	req.FileID, req.Output = id, t.replyLimit(notifyRoom)
	cl.Expect = int(req.Output)
	return cl, req
}

// keep leaves cl to the next Next, or abandons it after Close.
func (w *Watcher) keep(cl *conn.Call) {
	w.pending.Store(cl)
	if w.done.Err() != nil { // Close may have looked before
		abandonCall(w.take())
	}
}

// take returns the request that is under way, nil when there is none.
func (w *Watcher) take() *conn.Call { return w.pending.Swap(nil) }

// abandonCall gives up cl, whose reply is not wanted. cl may be nil.
func abandonCall(cl *conn.Call) {
	if cl == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cl.Finish(ctx, proto.StatusNotifyEnumDir, proto.StatusNotifyCleanup) == nil {
		cl.Release() // it was answered before
	}
}

// events returns the changes in the reply to cl, which came on t, and releases cl.
func (w *Watcher) events(t *tree, cl *conn.Call) ([]Event, error) {
	defer cl.Release()
	switch cl.Status {
	case proto.StatusNotifyEnumDir:
		return nil, ErrMissed
	case proto.StatusNotifyCleanup: // the directory was closed
		if _, _, err := t.m.current(); err != nil {
			return nil, err // by Unmount
		}
		return nil, &lostError{ErrHandleLost, Status(cl.Status)}
	}
	list, err := proto.DecodeChangeNotifyResponse(cl.Message())
	if err != nil {
		return nil, t.Malformed(err)
	}
	var events []Event
	var leftOut *leftOutError
	for list.Next() {
		e := list.Event()
		sent := proto.DecodeUTF16(e.Name)
		if name, ok := t.m.s.cfg.Names.localPath(sent); ok {
			events = append(events, Event{EventKind(e.Action), name})
		} else {
			leftOut = leftOut.and(sent)
		}
	}
	if err := list.Err(); err != nil {
		return nil, t.Malformed(err)
	}
	switch {
	case len(events) > 0:
		w.leftOut = leftOut
		return events, nil
	case leftOut != nil:
		return nil, leftOut
	}
	return nil, ErrMissed
}

// Close ends the watch; a waiting Next returns.
func (w *Watcher) Close() error {
	w.stop()
	abandonCall(w.take())
	return w.f.Close()
}
