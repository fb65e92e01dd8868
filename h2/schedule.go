package h2

import "context"

const (
	// passing is the length in bytes up to which DATA is short: it goes before longer
	// DATA that waits, which costs that next to nothing.
	passing = 16 << 10
	// incrementalTurn is how many bytes of an incremental stream are sent before the
	// next such stream has its turn.
	incrementalTurn = 32 << 10
	// passLimit is how many bytes of short DATA go before long DATA that waits, which
	// then has turns until it has sent a byte for every four: peers whose window is used
	// up by small calls get large ones, too.
	passLimit = 64 << 10
	// scarce is the connection's window below which short DATA that need not wait is
	// counted as well, and has to wait when that much has passed, or other short DATA
	// waits.
	scarce = 256 << 10
)

// schedule lists the streams whose DATA waits and whose windows are open, in the
// order in which they are served: by urgency (RFC 9218), and within an urgency short
// DATA before long, but when passLimit bytes of it have gone, long DATA has a turn.
// Short DATA goes in the order in which its Writes came. So does long DATA, except
// that a stream that has begun goes on, so that messages leave one after another. A
// stream whose window is shut is not listed. Guarded by Conn.mu.
type schedule struct{ short, long turns }

// turns is a list of Writes in the order in which they are served.
type turns struct{ first, last *waiting }

// waiting is a Write that waits until its DATA is queued; under Conn.mu. A stream
// gets one when a Write first waits, and keeps it.
type waiting struct {
	s          *Stream
	active     bool       // a Write waits
	in         *turns     // the list it is in; nil: none
	begun      bool       // some of out was sent
	supplied   bool       // out.Source is being asked; the Write must not return meanwhile
	ended      error      // what the Write returns then, if it is no longer active
	out        Out        // what is left to send; a copy, so that the Out of a Write that does not wait stays off the heap
	done       chan error // receives when out has been sent, nil, or its stream has ended, why
	next, prev *waiting   // in the list
}

func newWaiting(s *Stream) *waiting { return &waiting{s: s, done: make(chan error, 1)} }

// list puts w where it belongs among those that are ready, if the window of its
// stream is open. c.mu is held.
func (c *Conn) list(w *waiting) {
	s := w.s
	if !w.active || w.in != nil || s.out <= 0 {
		return
	}
	switch ready := &c.send.ready; {
	case int64(w.out.left())+w.out.SourceLen <= passing:
		ready.short.append(w)
	case w.begun && !s.priority.Incremental:
		ready.long.prepend(w)
	default:
		ready.long.append(w)
	}
}

// relist is called when the window of s has grown. c.mu is held.
func (c *Conn) relist(s *Stream) {
	if s.wait != nil {
		c.list(s.wait)
	}
}

// unlist takes w off its list. c.mu is held.
func (c *Conn) unlist(w *waiting) {
	if w.in != nil {
		w.in.link(w.prev, w.next)
		w.in, w.prev, w.next = nil, nil, nil
	}
}

// append puts w behind the others of its urgency.
func (l *turns) append(w *waiting) {
	prev := l.last
	for prev != nil && prev.s.priority.Urgency > w.s.priority.Urgency {
		prev = prev.prev
	}
	l.insert(prev, w)
}

// prepend puts w before the others of its urgency.
func (l *turns) prepend(w *waiting) {
	var prev *waiting
	for next := l.first; next != nil && next.s.priority.Urgency < w.s.priority.Urgency; next = next.next {
		prev = next
	}
	l.insert(prev, w)
}

// insert puts w behind prev; nil: at the beginning.
func (l *turns) insert(prev, w *waiting) {
	next := l.first
	if prev != nil {
		next = prev.next
	}
	w.in = l
	l.link(prev, w)
	l.link(w, next)
}

// link makes a and b neighbours; nil is the end of the list.
func (l *turns) link(a, b *waiting) {
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

// empty reports whether no stream is ready.
func (r *schedule) empty() bool { return r.short.first == nil && r.long.first == nil }

// next returns the Write that is served next, nil if none waits, and whether it is long
// DATA that is served before short DATA because passed bytes of that have gone.
func (r *schedule) next(passed int) (w *waiting, turn bool) {
	short, long := r.short.first, r.long.first
	switch {
	case short == nil:
		return long, false
	case long == nil || short.s.priority.Urgency < long.s.priority.Urgency:
		return short, false
	case long.s.priority.Urgency < short.s.priority.Urgency:
		return long, false
	case passed >= passLimit:
		return long, true
	}
	return short, false
}

// mayPass reports whether n bytes of short DATA of s may be queued before the DATA that
// waits, and counts them. c.mu is held.
func (c *Conn) mayPass(s *Stream, n int) bool {
	ready := &c.send.ready
	if ready.empty() || c.send.conn >= scarce {
		return true
	}
	if w := ready.short.first; w != nil && w.s.priority.Urgency <= s.priority.Urgency || c.send.passed >= passLimit {
		return false
	}
	c.send.passed += n
	return true
}

// fillLimit is how many bytes a batch has before long DATA waits. c.mu is held.
func (c *Conn) fillLimit() int {
	if c.held <= 1 || c.send.undisturbed == growAfter {
		return aloneLimit
	}
	return batchLimit
}

// countLong counts n bytes of long DATA that are queued. c.mu is held.
func (c *Conn) countLong(n int) { c.send.undisturbed = min(c.send.undisturbed+n, growAfter) }

// fill queues DATA of the streams that are ready, as far as the windows and the
// batch allow. c.mu is held, but not while a Source is asked.
func (c *Conn) fill() {
	filled := false
	for room := max(c.fillLimit()-c.queued(), minFill); room > 0 && c.send.conn > 0 && c.err == nil; {
		w, turn := c.send.ready.next(c.send.passed)
		if w == nil {
			return
		}
		s := w.s
		if s.out <= 0 { // the peer took window back
			c.unlist(w)
			continue
		}
		left := w.out.left()
		if left == 0 {
			n := supplySize
			if !filled {
				n = min(n, room)
			} else if c.queued()+n > batchLimit+passing {
				return
			}
			room = max(room, c.supply(w, n)) // it leaves in one piece
			continue
		}
		n := int(min(int64(left), s.out, c.send.conn, int64(room)))
		if s.priority.Incremental {
			n = min(n, incrementalTurn)
		}
		if turn {
			n = min(n, passing)
		}
		if w.in == &c.send.ready.short {
			c.send.passed += n
		} else {
			c.send.passed -= min(n*(passLimit/passing), c.send.passed)
			c.countLong(n)
		}
		room -= n
		filled = true
		if n == left && w.out.SourceLen == 0 {
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
		if w.supplied {
			w.ended = err // which supply sends
			return
		}
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
	w.active, w.out = true, *o
	if int64(o.left())+o.SourceLen <= passing {
		c.send.undisturbed = 0
	}
	c.list(w)
	c.kick()
	c.mu.Unlock()
	// A context may have a lock of its own, which its owner holds while it calls this connection: it is
	// asked without c.mu.
	var cancelled <-chan struct{}
	if ctx != nil {
		cancelled = ctx.Done()
	}
	var err error
	select {
	case err = <-w.done:
		c.mu.Lock()
	case <-cancelled:
		why := ctx.Err()
		c.mu.Lock()
		if w.active {
			c.endWait(w, why)
		}
		c.mu.Unlock()
		err = <-w.done // nil if all was queued meanwhile
		c.mu.Lock()
	}
	o.Data, o.SourceLen, w.out = w.out.Data, w.out.SourceLen, Out{}
	return err
}
