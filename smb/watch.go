package smb

import (
	"context"
	"errors"
	"strings"

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

// ErrMissed is returned by Watcher.Next when there were more changes than the server could report: read the
// directory again. The watch continues.
var ErrMissed = errors.New("smb: more changes than the server could report")

// notifyRoom is how many bytes of changes one reply may have.
const notifyRoom = 64 << 10

// Watcher reports changes in a directory. The server collects them between calls of Next. Next is for one
// goroutine at a time; Close may be called from any other.
type Watcher struct {
	f    *File
	req  proto.ChangeNotifyRequest
	stop context.CancelFunc
	done context.Context
}

// Watch starts to watch the named directory. The server collects changes from the first call of Next on.
func (s *Share) Watch(name string, flags WatchFlags) (*Watcher, error) {
	var f *File
	err := s.resolve(name, func(ctx context.Context, t *tree, remote string) error {
		h, err := s.open(ctx, t, name, remote, listRequest(remote))
		if err == nil {
			f = &File{h: h, ctx: s.ctx}
		}
		return err
	})
	if err != nil {
		return nil, pathError("watch", name, err)
	}
	w := &Watcher{f: f, req: proto.ChangeNotifyRequest{Output: notifyRoom, Filter: proto.NotifyFilter(flags &^ WatchTree)}}
	if flags&WatchTree != 0 {
		w.req.Flags = proto.NotifyTree
	}
	w.done, w.stop = context.WithCancel(s.ctx)
	return w, nil
}

// Next waits for changes and returns at least one. After Close it fails with ErrClosed; ErrMissed means that
// some changes were not reported.
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
	t, id, err := w.f.h.live(ctx)
	if err != nil {
		return nil, err
	}
	cl := t.Call(proto.CommandChangeNotify)
	cl.Expect = notifyRoom
	req := w.req
	req.FileID = id
	if err := t.RoundTrip(ctx, cl, &req, proto.StatusNotifyEnumDir, proto.StatusNotifyCleanup); err != nil {
		return nil, err
	}
	defer cl.Release()
	switch cl.Status {
	case proto.StatusNotifyEnumDir:
		return nil, ErrMissed
	case proto.StatusNotifyCleanup:
		return nil, ErrClosed
	}
	list, err := proto.DecodeChangeNotifyResponse(cl.Message())
	if err != nil {
		return nil, t.Malformed(err)
	}
	var events []Event
	for list.Next() {
		e := list.Event()
		name := strings.ReplaceAll(t.m.s.cfg.Names.local(proto.DecodeUTF16(e.Name)), `\`, "/")
		events = append(events, Event{EventKind(e.Action), name})
	}
	if err := list.Err(); err != nil {
		return nil, t.Malformed(err)
	}
	if len(events) == 0 {
		return nil, ErrMissed
	}
	return events, nil
}

// Close ends the watch; a waiting Next returns.
func (w *Watcher) Close() error {
	w.stop()
	return w.f.Close()
}
