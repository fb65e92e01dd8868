package smb

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleAhead is the least time for which a file that is not read keeps its read-ahead. It keeps it for at most twice as long.
const idleAhead = time.Second

// streams are the files of a session that hold read-ahead. Together they stay within a budget; a sweep every idleAhead
// drops the read-ahead of files that were not read since the sweep before.
type streams struct {
	bytes atomic.Int64
	count atomic.Int32

	closed atomic.Bool

	mu    sync.Mutex
	files map[*handle]uint64 // each file's count of reads at the last sweep; of a file added since, one less than its count then
	timer *time.Timer
}

// reserve takes n bytes of the budget.
func (s *streams) reserve(n, budget int) bool {
	if s.bytes.Add(int64(n)) > int64(budget) {
		s.bytes.Add(-int64(n))
		return false
	}
	return true
}

func (s *streams) unreserve(n int) { s.bytes.Add(-int64(n)) }

// add adds h, which is about to hold memory. The caller holds h's position.
func (s *streams) add(h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = make(map[*handle]uint64)
	}
	if len(s.files) == 0 && !s.closed.Load() {
		if s.timer == nil {
			s.timer = time.AfterFunc(idleAhead, s.sweep)
		} else {
			s.timer.Reset(idleAhead)
		}
	}
	s.files[h] = h.stream.reads - 1 // the next sweep may run at once, and must not drop what was just requested
	s.count.Store(int32(len(s.files)))
}

func (s *streams) remove(h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, h)
	s.count.Store(int32(len(s.files)))
	if len(s.files) == 0 && s.timer != nil {
		s.timer.Stop()
	}
}

// sweep drops the read-ahead of files that were not read since the last sweep. A file whose position is held
// is in use.
func (s *streams) sweep() {
	for _, h := range s.list() {
		select {
		case <-h.position:
		default:
			continue
		}
		s.mu.Lock()
		seen, ok := s.files[h]
		idle := ok && seen == h.stream.reads
		if ok {
			s.files[h] = h.stream.reads
		}
		s.mu.Unlock()
		if idle && !h.isDir { // a listing must keep its position
			h.discardReadAhead()
			h.stream.run = 0
		}
		h.unlockPosition()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) > 0 && !s.closed.Load() {
		s.timer.Reset(idleAhead)
	}
}

func (s *streams) list() []*handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*handle, 0, len(s.files))
	for h := range s.files {
		list = append(list, h)
	}
	return list
}

// close drops everything at the end of the session, except what running calls hold: they drop it in
// unlockPosition.
func (s *streams) close() {
	s.closed.Store(true)
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	for _, h := range s.list() {
		h.tryDiscard()
	}
}

// changed marks the read-ahead of the file h as outdated in all files of the session.
func (h *openFile) changed() {
	h.version.Add(1)
	h.m.s.streams.changed(h.m, h.remote)
}

// changed is the same for a file by its name on a mount, or on another mount of the same share.
func (s *streams) changed(m *mount, remote string) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.files {
		if sameName(h.m.name, m.name) && sameName(h.remote, remote) {
			h.version.Add(1)
		}
	}
}
