package smb

import (
	"context"
	"sync"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// leaseTable knows which open files hold a lease or an oplock. Nothing is cached under
// them, so a break is acknowledged at once; the file is then no longer durable.
type leaseTable struct {
	mu   sync.Mutex
	held map[*handle]struct{}
}

func (l *leaseTable) keep(h *handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[*handle]struct{})
	}
	l.held[h] = struct{}{}
}

func (l *leaseTable) forget(h *handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, h)
}

// find is the file that a break is about, nil when it has been closed meanwhile.
func (l *leaseTable) find(c *conn, b *proto.Break) *handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.held {
		h.mu.Lock()
		match := h.t.c == c && (b.IsLease && h.durable.lease == b.LeaseKey || !b.IsLease && h.id == b.FileID)
		h.mu.Unlock()
		if match {
			return h
		}
	}
	return nil
}

// broken acknowledges a break (MS-SMB2 3.2.5.19). It runs in the receiver.
func (l *leaseTable) broken(c *conn, msg []byte) error {
	b, err := proto.DecodeBreak(msg)
	if err != nil {
		return err
	}
	h := l.find(c, &b)
	if h == nil || b.IsLease && b.Flags&proto.LeaseBreakAckRequired == 0 {
		return nil
	}
	h.mu.Lock()
	t := h.t
	h.mu.Unlock()
	var req request = &proto.OplockAck{FileID: b.FileID, Oplock: b.Oplock}
	if b.IsLease {
		req = &proto.LeaseAck{Key: b.LeaseKey, State: b.NewState}
	}
	c.work.run(func() {
		cl := t.call(proto.CommandOplockBreak)
		if t.roundTrip(context.Background(), cl, req) == nil {
			c.release(cl)
		}
	})
	return nil
}
