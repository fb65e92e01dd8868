package smb

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// unanswered are the requests of a session that change or open files, whose callers have returned because their contexts had ended, and
// which the server has not answered yet. A later call on such a file waits for the answer, as a write of package os has had its effect,
// or will have none, when it returns. Otherwise a cancelled WRITE might overwrite what a later one has written, since a server carries
// out several requests at once; and a file that a cancelled CREATE has opened could not be replaced before it is closed again. Files are
// told apart by their names and those of their shares, which may be mounted several times.
type unanswered struct {
	n     atomic.Int64 // of all files
	mu    sync.Mutex
	files map[unansweredFile]*unansweredOf
}

// unansweredFile is a file by its names in lower case.
type unansweredFile struct{ share, name string }

func unansweredOn(m *mount, remote string) unansweredFile {
	return unansweredFile{strings.ToLower(m.name), strings.ToLower(remote)}
}

type unansweredOf struct {
	n    int
	none chan struct{} // closed when n is zero
}

// add counts one more request for the file.
func (u *unanswered) add(m *mount, remote string) {
	key := unansweredOn(m, remote)
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.files[key]
	if of == nil {
		if u.files == nil {
			u.files = map[unansweredFile]*unansweredOf{}
		}
		of = &unansweredOf{none: make(chan struct{})}
		u.files[key] = of
	}
	of.n++
	u.n.Add(1)
}

// remove counts one request less.
func (u *unanswered) remove(m *mount, remote string) {
	key := unansweredOn(m, remote)
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.files[key]
	u.n.Add(-1)
	if of.n--; of.n == 0 {
		delete(u.files, key)
		close(of.none)
	}
}

// wait returns when the server has answered the file's requests that are unanswered now.
func (u *unanswered) wait(ctx context.Context, m *mount, remote string) error {
	if u.n.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	of := u.files[unansweredOn(m, remote)]
	u.mu.Unlock()
	if of == nil {
		return nil
	}
	select {
	case <-of.none:
		return nil
	case <-ctx.Done():
		return conn.ContextError(ctx)
	}
}

// ordering says whether an operation waits for the requests on its file that are unanswered.
type ordering uint8

const (
	ordered ordering = iota
	// unordered are File.Stat, which describes the file also while the server stalls, the reopening of a file, and the removal of a file
	// that could not be finished: it is sent whether or not the server answers the requests that were given up, and if they are carried
	// out later, they find no file.
	unordered
)

// effect is what a request does to a file of a share.
type effect struct {
	m      *mount
	remote string
	target string // the file's new name, if the request renames it
	lasts  bool   // it changes the file; otherwise it opens it
}

func (e *effect) Lasts() bool { return e.lasts }

func (e *effect) GivenUp() {
	e.m.s.unanswered.add(e.m, e.remote)
	if e.target != "" {
		e.m.s.unanswered.add(e.m, e.target)
	}
}

func (e *effect) Answered() {
	e.m.s.unanswered.remove(e.m, e.remote)
	if e.target != "" {
		e.m.s.unanswered.remove(e.m, e.target)
	}
}

// changeOf is what the requests of a chain change, nil for nothing.
func (t *tree) changeOf(create *proto.CreateRequest, steps []step) conn.Effect {
	changes := create.Disposition != proto.DispositionOpen
	for i := range steps {
		changes = changes || steps[i].cmd == proto.CommandWrite || steps[i].cmd == proto.CommandSetInfo
	}
	if !changes {
		return nil
	}
	return &effect{t.m, create.Name, renamedTo(steps), true}
}

// renamedTo is the new name that one of the steps gives to the file; "" for none.
func renamedTo(steps []step) (target string) {
	for i := range steps {
		target = max(target, steps[i].target) // one step at most has one
	}
	return target
}

// awaitUnanswered waits for the requests that were given up and have an effect on the named file.
func (v view) awaitUnanswered(ctx context.Context, remote string) error {
	if v.order == unordered {
		return nil
	}
	return v.m.s.unanswered.wait(ctx, v.m, remote)
}
