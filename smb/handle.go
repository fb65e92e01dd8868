package smb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// handle is an open file, shared by the Files of one Open.
type handle struct {
	m       *mount
	name    string // as the user gave it
	remote  string
	append  bool
	isDir   bool
	at      proto.Filetime // of the snapshot, zero for the present
	created bool           // by the CREATE that opened it
	opened  time.Time      // its time of last write when it was opened

	mu      sync.Mutex
	t       *tree
	id      proto.FileID
	closed  bool
	gone    error // why it cannot be used any more
	durable durability
	grants  proto.CreateGrants
	oplock  proto.OplockLevel

	length  atomic.Int64  // as the server last reported it or as written here; a hint
	version atomic.Uint64 // counts changes made through this session
	ended   atomic.Bool   // closed, for the holder of the position

	reopening chan struct{} // capacity 1, full when free: the goroutine that reopens holds it
	position  chan struct{} // capacity 1, full when free: its holder alone uses the fields below
	off       int64
	stream    readAhead
	dir       *listing
}

func newHandle(t *tree, name, remote string, r *proto.CreateResponse) *handle {
	h := &handle{
		m: t.m, name: name, remote: remote, t: t, id: r.FileID, grants: r.Contexts, oplock: r.Oplock,
		isDir:     r.Attributes&proto.AttrDirectory != 0,
		created:   r.Action == proto.ActionCreated,
		opened:    r.Times.LastWrite.Time(),
		position:  make(chan struct{}, 1),
		reopening: make(chan struct{}, 1),
	}
	h.length.Store(int64(r.EndOfFile))
	h.reopening <- struct{}{}
	h.position <- struct{}{}
	return h
}

// live is the tree and id to use the file with. On a new connection it comes back by
// its durable handle, or is lost.
func (h *handle) live(ctx context.Context) (*tree, proto.FileID, error) {
	h.mu.Lock()
	t, id, closed, gone := h.t, h.id, h.closed, h.gone
	h.mu.Unlock()
	switch {
	case closed:
		return nil, id, ErrClosed
	case gone != nil:
		return nil, id, gone
	case t.Conn().Alive():
		return t, id, nil
	}
	return h.reopen(ctx)
}

// lockPosition waits for the right to use the position, the read-ahead and the listing.
func (h *handle) lockPosition(ctx context.Context) error {
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

// unlockPosition gives it back. What was read ahead does not outlive the file or the session.
func (h *handle) unlockPosition() {
	if h.over() {
		h.discardBuffered()
	}
	h.position <- struct{}{}
	if h.over() {
		h.tryDiscard() // it may have been closed since
	}
}

// over reports whether the position is not going to be used any more.
func (h *handle) over() bool { return h.ended.Load() || h.m.s.streams.closed.Load() }

// tryDiscard drops what reading the file in order has buffered, unless a call under way holds
// the position: unlockPosition does it then.
func (h *handle) tryDiscard() {
	select {
	case <-h.position:
		h.discardBuffered()
		h.position <- struct{}{}
	default:
	}
}

// discardBuffered drops what was read ahead, and the listing. The caller holds the position.
func (h *handle) discardBuffered() {
	h.discardReadAhead()
	h.dropListing()
}

func (h *handle) dropListing() {
	h.delist()
	if h.dir != nil {
		h.dir.drop()
		h.dir = nil
	}
}

// grown notes that the file has at least n bytes.
func (h *handle) grown(n int64) {
	for {
		old := h.length.Load()
		if old >= n || h.length.CompareAndSwap(old, n) {
			return
		}
	}
}

// close gives the file up on the server.
func (h *handle) close(ctx context.Context) error {
	if h.keptByServer() {
		h.live(ctx) // or the server would keep it open until its own timeout
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return ErrClosed
	}
	h.closed = true
	t, id, gone := h.t, h.id, h.gone
	h.mu.Unlock()
	h.ended.Store(true)
	h.tryDiscard()
	h.m.s.leases.forget(h)
	if gone != nil {
		return gone
	}
	if !t.Conn().Alive() {
		if h.isDir {
			return nil // nothing was lost with it
		}
		// The server closes it, or keeps it for a while, by itself.
		return fmt.Errorf("%w: %w", ErrHandleLost, t.Conn().Err())
	}
	return t.closeID(ctx, id)
}

// keptByServer reports whether the server may still have the file open after its
// connection broke.
func (h *handle) keptByServer() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed && h.gone == nil && h.durable.granted && !h.t.Conn().Alive()
}

// closeID sends CLOSE.
func (t *tree) closeID(ctx context.Context, id proto.FileID) error {
	return t.Do(ctx, t.Call(proto.CommandClose), &proto.CloseRequest{FileID: id})
}
