package smb

import (
	"sync"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// leaseTable holds the leases and oplocks that the server may break. No data is cached under them, so a break
// is acknowledged at once; the file is no longer durable then.
type leaseTable struct {
	mu     sync.Mutex
	leases map[[16]byte]*tree // by lease key, added before the CREATE that requests one
	held   map[*openFile]struct{}
}

// expect adds a lease that is about to be requested, or is held, on a tree: its break may arrive before the
// reply that grants it has been processed.
func (l *leaseTable) expect(key [16]byte, t *tree) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases == nil {
		l.leases = make(map[[16]byte]*tree)
	}
	l.leases[key] = t
}

// dismiss removes a lease that was not granted, or has ended.
func (l *leaseTable) dismiss(key [16]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, key)
}

// keep adds the oplock of h.
func (l *leaseTable) keep(h *openFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[*openFile]struct{})
	}
	l.held[h] = struct{}{}
}

// forget removes the lease or oplock of a closed file.
func (l *leaseTable) forget(h *openFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, h)
	delete(l.leases, h.durable.lease)
}

// find returns the tree of the broken lease or oplock, nil when its file has been closed meanwhile.
func (l *leaseTable) find(c *conn.Conn, b *proto.Break) *tree {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.IsLease {
		if t := l.leases[b.LeaseKey]; t != nil && t.Conn() == c {
			return t
		}
		return nil
	}
	for h := range l.held {
		h.mu.Lock()
		t, id := h.t, h.id
		h.mu.Unlock()
		if t.Conn() == c && id == b.FileID {
			return t
		}
	}
	return nil
}

// broken returns the tree on which to acknowledge a break (MS-SMB2 3.2.5.19). It runs in the receiver.
func (l *leaseTable) broken(c *conn.Conn, b *proto.Break) *conn.Tree {
	if t := l.find(c, b); t != nil {
		return t.Tree
	}
	return nil
}
