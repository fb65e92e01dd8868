package h2

import (
	"runtime"
	"time"
)

// together says how a caller flushes that may wait for others' frames: with 64 callers gathering takes a tenth of the writes and a third of
// the time. Conn.mu is held.
func (s *sender) together() flushMode {
	if s.c.inUse < gatherFrom {
		return flushInTurn
	}
	return flushTogether
}

// gatherReplies starts a goroutine that sends the replies to the messages of one read, before the callback for the last of them. Without it the first
// of the goroutines that the callbacks wake would yield to the others before it sends; but an idle processor takes up at once what yields, and
// then sends replies one by one. The scheduler runs a goroutine that is started now on this processor after those that were woken before it, and
// idle processors take those over first. Conn.mu is held.
func (s *sender) gatherReplies() {
	if s.state == notWriting && s.w != nil && s.w.CanTry() { // elsewhere the writer goroutine gathers
		s.state = replying
		go s.replies()
	}
}

// sendReplies sends what has been queued since gatherReplies.
func (s *sender) sendReplies() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.state == replying { // else a flush has come before
		s.state = notWriting
		s.flush(flushInTurn)
	}
}

// letOthersQueue lets other callers queue frames, which then leave together with those that are queued, as long as it is worth while.
// Conn.mu is held, and given up meanwhile.
func (s *sender) letOthersQueue() {
	begun := time.Now()
	for range maxYields {
		before := s.queued()
		s.c.mu.Unlock()
		runtime.Gosched()
		s.c.mu.Lock()
		if n := s.queued(); n == before || n >= goodBatch || time.Since(begun) > maxYield {
			return
		}
	}
}
