package smb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// handle is an open file with its reader, shared by all Files of one Open.
type handle struct {
	openFile
	reader
}

// openFile is a file that is open on the server. Its methods use no position.
type openFile struct {
	m          *mount
	name       string // as the user gave it
	remote     string
	change     effect // of requests on this file
	append     bool
	appendOnly bool // the server lets nothing be written elsewhere
	isDir      bool
	snapshot   proto.Filetime // of the snapshot; zero: the current version
	created    bool           // the CREATE created the file
	opened     proto.Filetime // the file's last write time at the CREATE
	made       fileIdentity

	mu      sync.Mutex
	t       *tree
	id      proto.FileID
	closed  bool
	lostErr error // not nil: the reason why the file cannot be used any more
	durable durability
	grants  proto.CreateGrants
	oplock  proto.OplockLevel

	length  atomic.Int64  // as last reported by the server or written here; may be outdated
	sparse  atomic.Bool   // marked so when it was opened, or since
	version atomic.Uint64 // counts changes made through this session
	ended   atomic.Bool   // closed; for the goroutine that holds the position

	reopened atomic.Bool // by a durable handle, which has no POSIX extensions

	reopening chan struct{} // capacity 1, full when free: taken by the goroutine that reopens
}

// reader is the position of an open file, and what is kept for it.
type reader struct {
	position chan struct{} // capacity 1, full when free: only the goroutine that took it uses the fields below
	off      int64
	stream   readAhead
	dir      *listing
}

func newHandle(t *tree, name, remote string, r *proto.CreateResponse) *handle {
	h := &handle{
		openFile: openFile{
			m: t.m, name: name, remote: remote, change: effect{m: t.m, remote: remote, lasts: true},
			t: t, id: r.FileID, grants: r.Contexts, oplock: r.Oplock,
			isDir:     r.Attributes&proto.AttrDirectory != 0,
			created:   r.Action == proto.ActionCreated,
			opened:    r.Times.LastWrite,
			made:      fileIdentityOf(r),
			reopening: make(chan struct{}, 1),
		},
		reader: reader{position: make(chan struct{}, 1)},
	}
	h.length.Store(int64(r.EndOfFile))
	h.sparse.Store(r.Attributes&proto.AttrSparse != 0)
	h.reopening <- struct{}{}
	h.position <- struct{}{}
	return h
}

// live returns the tree and id to use the file with: in order, after the server has answered the requests that change the file and were
// given up. On a new connection it reopens the file by its durable
// handle, or reports it as lost.
func (h *openFile) live(ctx context.Context, order ordering) (*tree, proto.FileID, error) {
	if order == ordered {
		if err := h.m.s.unanswered.wait(ctx, h.m, h.remote); err != nil {
			return nil, proto.FileID{}, err
		}
	}
	h.mu.Lock()
	t, id, closed, lostErr := h.t, h.id, h.closed, h.lostErr
	h.mu.Unlock()
	switch {
	case closed:
		return nil, id, ErrClosed
	case lostErr != nil:
		return nil, id, lostErr
	case t.Alive():
		return t, id, nil
	}
	return h.reopen(ctx)
}

// lockPosition waits for the exclusive use of the position, the read-ahead and the listing. It fails once the file is closed, for calls
// that send nothing.
func (h *handle) lockPosition(ctx context.Context) error {
	if h.ended.Load() {
		return ErrClosed
	}
	select {
	case <-h.position:
		return nil
	default:
	}
	select {
	case <-h.position:
		return nil
	case <-ctx.Done():
		return conn.ContextError(ctx)
	}
}

// unlockPosition ends the exclusive use. Data that was read ahead is dropped when the file or the session has
// been closed.
func (h *handle) unlockPosition() {
	if h.positionEnded() {
		h.discardBuffered()
	}
	h.position <- struct{}{}
	if h.positionEnded() {
		h.tryDiscard() // it may have been closed meanwhile
	}
}

// positionEnded reports whether the file or the session has been closed, so that the position is not used any more.
func (h *handle) positionEnded() bool { return h.ended.Load() || h.m.s.streams.closed.Load() }

// tryDiscard drops what sequential reading has buffered, unless a running call holds the position: then
// unlockPosition drops it.
func (h *handle) tryDiscard() {
	select {
	case <-h.position:
		h.discardBuffered()
		h.position <- struct{}{}
	default:
	}
}

// discardBuffered drops the read-ahead and the listing. The caller holds the position.
func (h *handle) discardBuffered() {
	h.discardReadAhead()
	h.discardListing()
}

func (h *handle) discardListing() {
	h.delist()
	if h.dir != nil {
		h.dir.freeReply()
		h.dir = nil
	}
}

// grown records that the file has at least n bytes.
func (h *openFile) grown(n int64) {
	for {
		old := h.length.Load()
		if old >= n || h.length.CompareAndSwap(old, n) {
			return
		}
	}
}

// close closes the file on the server.
func (h *handle) close(ctx context.Context) error {
	var unreachable error
	var b budget
	if h.keptByServer() {
		_, _, unreachable = h.ready(ctx, &b) // otherwise the server would keep it open until its own timeout
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return ErrClosed
	}
	h.closed = true
	t, id, lostErr, granted := h.t, h.id, h.lostErr, h.durable.granted
	h.mu.Unlock()
	h.ended.Store(true)
	h.tryDiscard()
	h.m.s.leases.forget(&h.openFile)
	if lostErr != nil {
		return lostErr
	}
	if !t.Alive() {
		if h.isDir {
			return nil // nothing was lost with it
		}
		if granted && unreachable == nil && b.retry(ctx, h.m.s, t, t.Err()) {
			return h.closeAgain(ctx, &b, t.Err()) // the connection was lost since this call began
		}
		// The server closes the handle by itself, at once or after its timeout.
		return fmt.Errorf("%w: %w", ErrHandleLost, t.Err())
	}
	err := t.closeID(ctx, id)
	switch {
	case b.retry(ctx, h.m.s, t, err):
		err = h.closeAgain(ctx, &b, err)
	case hasStatus(err, proto.StatusFileClosed):
		err = &lostError{ErrHandleLost, err}
	}
	return err
}

// closeAgain closes a file whose CLOSE failed with failed, because the connection was lost or the session had expired.
// b counts that one. After a loss the server has closed the file, or keeps it open for the client to come back.
func (h *openFile) closeAgain(ctx context.Context, b *budget, failed error) error {
	select { // another goroutine may be reopening the file, and must not have it again after the CLOSE
	case <-h.reopening:
	case <-ctx.Done():
		return conn.ContextError(ctx)
	}
	defer func() { h.reopening <- struct{}{} }()
	defer h.m.s.leases.forget(h)
	var t *tree
	var id proto.FileID
	connect := func() (_ *tree, err error) {
		h.mu.Lock()
		granted := h.durable.granted
		t, id = h.t, h.id
		h.mu.Unlock()
		switch {
		case t.Alive():
			return t, nil
		case h.isDir:
			t = nil // nothing was lost with it
			return nil, nil
		case !granted:
			return nil, fmt.Errorf("%w: %w", ErrHandleLost, failed)
		}
		if t, id, err = h.reconnect(ctx); errors.Is(err, ErrHandleLost) {
			t, err = nil, nil // the server has closed it, or does so after its timeout
		}
		return t, err
	}
	return h.m.s.run(ctx, opClose.rule(), b, connect, func() error {
		if t == nil {
			return nil
		}
		return t.closeID(ctx, id)
	})
}

// keptByServer reports whether the server may still hold the file open after its connection broke.
func (h *openFile) keptByServer() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed && h.lostErr == nil && h.durable.granted && !h.t.Alive()
}

// closeID sends CLOSE, later when ctx ends before it can be sent.
func (t *tree) closeID(ctx context.Context, id proto.FileID) error {
	return t.Do(ctx, t.closeCall(), &proto.CloseRequest{FileID: id})
}

// closeCall is a call for a CLOSE, which is sent on every path: the server would keep the file open otherwise.
func (t *tree) closeCall() *conn.Call {
	cl := t.Call(proto.CommandClose)
	cl.Detached = true
	return cl
}
