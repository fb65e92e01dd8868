package smb

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
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

// effectOn is the effect of the operation's requests on the named file, which some of them rename to target unless that is "". nil: none.
func (v view) effectOn(remote, target string) conn.Effect {
	c := v.kind.rule().changes
	if !c.hasEffect() {
		return nil
	}
	return &effect{v.m, remote, target, c.outlastsSession()}
}

// effect is the effect of requests on the open file, of operations of a kind. nil: none.
func (h *openFile) effect(kind opKind) conn.Effect {
	if !kind.rule().changes.hasEffect() {
		return nil
	}
	return &h.change
}

// awaitUnanswered waits for the requests that were given up and have an effect on the named file.
func (v view) awaitUnanswered(ctx context.Context, remote string) error {
	if v.kind.rule().order == unordered {
		return nil
	}
	return v.m.s.unanswered.wait(ctx, v.m, remote)
}
