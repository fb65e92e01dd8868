package h2

import "github.com/tarn-go/tarn"

// Source makes DATA at the time when it is sent, for content that need not be in a buffer before, such as that of a file in the
// system's cache: it is sent while it is in the processor's cache, and no other goroutine is woken for each piece.
type Source interface {
	// Supply returns the next bytes, from one to n of them, whose ownership it passes on; an empty Buffer ends the Write. It is
	// called by the goroutine that sends, any caller's or the connection's own, by one at a time and without a lock of this package. That
	// goroutine may hold a lock of its own while it calls the connection or a stream, so Supply must not take such a lock. Nothing
	// else is sent on the connection meanwhile, so it must not wait; it may not call the stream or the connection, and must not panic.
	Supply(n int) tarn.Buffer
}

// supplySize is how many bytes a Source is asked for at most: two such pieces make a batch.
const supplySize = 128 << 10

// supply asks the Source of w, which is served next, for at most n bytes of DATA and returns how many it has supplied. c.mu is
// held, but not throughout: meanwhile w may have ended.
func (c *Conn) supply(w *waiting, n int) int {
	n = int(min(int64(n), w.out.SourceLen, w.s.out, c.send.conn))
	if w.s.priority.Incremental {
		n = min(n, incrementalTurn)
	}
	source := w.out.Source
	w.supplied = true
	c.mu.Unlock()
	b := source.Supply(n)
	if b.Len() > n {
		panic("h2: a Source has supplied more than it was asked for")
	}
	c.mu.Lock()
	w.supplied = false
	n = b.Len()
	switch {
	case !w.active:
		b.Free()
		w.done <- w.ended
		w.ended = nil
		return 0
	case n == 0:
		b.Free()
		c.endWait(w, nil)
	default:
		w.out.SourceLen -= int64(n)
		w.out.Data = b
	}
	return n
}
