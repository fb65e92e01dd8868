package h2

import "context"

const (
	// passing is the length in bytes up to which DATA goes before longer DATA that
	// waits: it costs that next to nothing.
	passing = 16 << 10
	// incrementalTurn is how many bytes of an incremental stream are sent before the
	// next such stream has its turn.
	incrementalTurn = 32 << 10
	// passLimit is how many bytes of short DATA go before DATA that has waited longer,
	// which then has a turn of at most passing bytes: peers whose window is used up by
	// small calls get large ones, too.
	passLimit = 64 << 10
	// scarce is the connection's window below which short DATA that need not wait is
	// counted as well, and has to wait when that much has passed.
	scarce = 256 << 10
)

// schedule lists the streams whose DATA waits and whose windows are open, in the
// order in which they are served: by urgency (RFC 9218), then in the order in which
// their Writes came, so that messages leave one after another. A stream that has
// been served goes before those that have not, and short DATA before both, but when
// passLimit bytes of it have gone, the Write that has waited longest has a turn. A
// stream whose window is shut is not listed. Guarded by Conn.mu.
type schedule struct{ first, last *waiting }

// waiting is a Write that waits until its DATA is queued; under Conn.mu. A stream
// gets one when a Write first waits, and keeps it.
type waiting struct {
	s          *Stream
	active     bool       // a Write waits
	listed     bool       // in the schedule
	begun      bool       // some of out was sent
	number     uint64     // the later Write has the higher one
	out        Out        // what is left to send; a copy, so that the Out of a Write that does not wait stays off the heap
	done       chan error // receives when out has been sent, nil, or its stream has ended, why
	next, prev *waiting   // in the schedule
}

func newWaiting(s *Stream) *waiting { return &waiting{s: s, done: make(chan error, 1)} }

// list puts w where it belongs among those that are ready, if the window of its
// stream is open. c.mu is held.
func (c *Conn) list(w *waiting) {
	s := w.s
	if !w.active || w.listed || s.out <= 0 {
		return
	}
	w.listed = true
	l := &c.send.ready
	urgency := s.priority.Urgency
	if w.begun && !s.priority.Incremental || w.out.left() <= passing {
		w.next = l.first
		for w.next != nil && w.next.s.priority.Urgency < urgency {
			w.next = w.next.next
		}
		if w.prev = l.last; w.next != nil {
			w.prev = w.next.prev
		}
	} else {
		w.prev = l.last
		for w.prev != nil && w.prev.s.priority.Urgency > urgency {
			w.prev = w.prev.prev
		}
		if w.next = l.first; w.prev != nil {
			w.next = w.prev.next
		}
	}
	l.link(w.prev, w)
	l.link(w, w.next)
}

// relist is called when the window of s has grown. c.mu is held.
func (c *Conn) relist(s *Stream) {
	if s.wait != nil {
		c.list(s.wait)
	}
}

// unlist takes w off the list. c.mu is held.
func (c *Conn) unlist(w *waiting) {
	if w.listed {
		w.listed = false
		c.send.ready.link(w.prev, w.next)
		w.prev, w.next = nil, nil
	}
}

// link makes a and b neighbours; nil is the end of the list.
func (l *schedule) link(a, b *waiting) {
	if a == nil {
		l.first = b
	} else {
		a.next = b
	}
	if b == nil {
		l.last = a
	} else {
		b.prev = a
	}
}

// oldest returns the Write that has waited longest of those as urgent as the first; nil:
// none waits.
func (l *schedule) oldest() *waiting {
	old := l.first
	for w := old; w != nil && w.s.priority.Urgency == l.first.s.priority.Urgency; w = w.next {
		if w.number < old.number {
			old = w
		}
	}
	return old
}

// mayPass reports whether n bytes of short DATA may be queued before the DATA that waits,
// and counts them. c.mu is held.
func (c *Conn) mayPass(n int) bool {
	s := &c.send
	if s.ready.first == nil || s.conn >= scarce {
		return true
	}
	if s.passed >= passLimit {
		return false
	}
	s.passed += n
	return true
}

// fillLimit is how many bytes a batch has before long DATA waits. c.mu is held.
func (c *Conn) fillLimit() int {
	if c.held <= 1 {
		return aloneLimit
	}
	return batchLimit
}

// fill queues DATA of the streams that are ready, as far as the windows and the
// batch allow. c.mu is held.
func (c *Conn) fill() {
	if c.err != nil {
		return
	}
	for room := max(c.fillLimit()-c.queued(), minFill); room > 0 && c.send.conn > 0; {
		w := c.send.ready.first
		if w == nil {
			return
		}
		overdue := false // w has waited longest, and is served before its turn
		if c.send.passed >= passLimit {
			old := c.send.ready.oldest()
			overdue, w = old != w, old
		}
		s := w.s
		if s.out <= 0 { // the peer took window back
			c.unlist(w)
			continue
		}
		left := w.out.left()
		n := int(min(int64(left), s.out, c.send.conn, int64(room)))
		if s.priority.Incremental {
			n = min(n, incrementalTurn)
		}
		if overdue {
			n = min(n, passing)
		}
		if overdue || left > passing || c.send.passed >= passLimit {
			c.send.passed = 0
		} else {
			c.send.passed += n
		}
		room -= n
		if n == left {
			out := w.out
			w.out = Out{}
			c.endWait(w, nil)
			c.putTail(s, &out)
			continue
		}
		c.putData(s, &w.out, n, More)
		w.begun = true
		if s.out <= 0 || s.priority.Incremental {
			c.unlist(w)
			c.list(w)
		}
	}
}

// endWait has the Write that waits return err. c.mu is held.
func (c *Conn) endWait(w *waiting, err error) {
	if w.active {
		c.unlist(w)
		w.active, w.begun = false, false
		w.done <- err
	}
}

// waitSent has the DATA of o sent as windows and batches permit. It waits until all
// of o is queued, ctx is done or s has ended; what is left is in o then. c.mu is
// held, but not throughout.
func (c *Conn) waitSent(ctx context.Context, s *Stream, o *Out) error {
	if s.wait == nil {
		s.wait = newWaiting(s)
	}
	w := s.wait
	w.active, w.out, w.number = true, *o, c.send.waits
	c.send.waits++
	c.list(w)
	c.kick()
	var cancelled <-chan struct{}
	if ctx != nil {
		cancelled = ctx.Done()
	}
	c.mu.Unlock()
	var err error
	select {
	case err = <-w.done:
		c.mu.Lock()
	case <-cancelled:
		c.mu.Lock()
		if w.active {
			c.endWait(w, ctx.Err())
		}
		err = <-w.done // nil if all was queued meanwhile
	}
	o.Data, w.out = w.out.Data, Out{}
	return err
}
