package h2

import "context"

// waiting is a Write that waits until its DATA is queued; under Conn.mu. A stream
// gets one when a Write first waits, and keeps it.
type waiting struct {
	s      *Stream
	active bool       // a Write waits
	taken  bool       // a Write has it, and may have yet to notice that its wait is over
	asked  bool       // out.Source is being asked; the Write must not return meanwhile
	ended  error      // what the Write returns then, if it is no longer active
	out    Out        // what is left to send; a copy, so that the Out of a Write that does not wait stays off the heap
	done   chan error // receives when out has been sent, nil, or its stream has ended, why
	place
}

func newWaiting(s *Stream) *waiting { return &waiting{s: s, done: make(chan error, 1)} }

// list has w served in its turn, if the window of its stream is open. c.mu is held.
func (c *Conn) list(w *waiting) {
	if !w.active || w.in != nil || w.s.out <= 0 {
		return
	}
	if c.ready == nil {
		c.ready = new(scheduler)
	}
	c.ready.add(w, int64(w.out.dataLen())+w.out.SourceLen, w.s.priority)
}

// relist is called when the window of s has grown. c.mu is held.
func (c *Conn) relist(s *Stream) {
	if s.wait != nil {
		c.list(s.wait)
	}
}

// fill queues DATA of the streams that are ready, as far as the windows allow and room bytes. It stops where a Source is to be asked before it
// can go on. c.mu is held.
func (c *Conn) fill(room int) demand {
	c.ready.allow(c.send.turn())
	for room > 0 && c.peer.conn > 0 && !c.lifetime.reached(closing) {
		w, most := c.ready.next()
		if w == nil {
			break
		}
		s := w.s
		if s.out <= 0 { // the peer took window back
			c.ready.remove(w)
			continue
		}
		left := w.out.dataLen()
		if w.out.Source != nil && c.send.queued() < minFill { // what a Source supplies leaves in one piece
			room = max(room, left)
		}
		n := int(min(int64(left), s.out, c.peer.conn, int64(room), int64(most)))
		if left == 0 {
			n = int(min(int64(min(supplySize, most)), w.out.SourceLen, s.out, c.peer.conn))
			if n > room && c.send.queued() >= minFill {
				break
			}
			return demand{w, n, room}
		}
		c.ready.served(w, n)
		room -= n
		if n == left && w.out.SourceLen == 0 {
			out := w.out
			w.out = Out{}
			c.endWait(w, nil)
			c.putTail(s, &out)
			continue
		}
		c.putData(s, &w.out, n, More)
		if s.out <= 0 {
			c.ready.remove(w)
		}
	}
	return demand{}
}

// endWait has the Write that waits return err. c.mu is held.
func (c *Conn) endWait(w *waiting, err error) {
	if w.active {
		c.ready.remove(w)
		w.active = false
		if w.asked {
			w.ended = err // which supplied sends
			return
		}
		w.done <- err
	}
}

// waitSent has the DATA of o sent as windows and batches permit. It waits until all
// of o is queued, ctx is done or s has ended; what is left is in o then. c.mu is
// held, but not while it waits: the caller reads the state of s again.
func (c *Conn) waitSent(ctx context.Context, s *Stream, o *Out) error {
	if s.wait == nil {
		s.wait = newWaiting(s)
	}
	w := s.wait
	w.active, w.taken, w.out = true, true, *o
	c.list(w)
	c.send.flush(flushInTurn)
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
	w.taken = false
	return err
}
