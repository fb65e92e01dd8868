package h2

// passing is the length in bytes up to which DATA does not wait for its turn:
// it costs those before it next to nothing.
const passing = 16 << 10

// turns are the Writes that wait for a window or for room in the queue, in the
// order in which they came. One that is woken has its share promised, so that
// neither the others nor a Write that begins meanwhile take it away; one whose
// share did not do for all of its DATA waits at the front. So messages leave one
// after another, and as many Writes are woken as can go on. Guarded by Conn.mu.
type turns struct {
	first, last *Stream
	promised    int64 // bytes, to Writes that were woken and have not run yet
}

// place is where in the order a Write waits.
type place uint8

const (
	atBack  place = iota
	atFront       // it has had a turn
)

// share returns how many of left bytes s may queue now. c.mu is held.
func (c *Conn) share(s *Stream, left int) int {
	promised := c.send.turns.promised
	if left <= passing {
		promised = 0
	}
	if int64(c.queued())+promised >= queueHigh {
		return 0
	}
	return int(max(0, min(int64(left), s.out, c.send.conn-promised)))
}

// addWaiter has s wait for its turn to queue want bytes. c.mu is held.
func (c *Conn) addWaiter(s *Stream, want int, at place) {
	select {
	case <-s.wake:
	default:
	}
	s.waiting, s.want = true, want
	t := &c.send.turns
	if at == atFront {
		s.prev, s.next = nil, t.first
	} else {
		s.prev, s.next = t.last, nil
	}
	t.link(s)
}

func (c *Conn) dropWaiter(s *Stream) {
	if !s.waiting {
		return
	}
	s.waiting = false
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		c.send.turns.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		c.send.turns.last = s.prev
	}
	s.prev, s.next = nil, nil
}

// link makes the neighbours of s, or the ends of the list, point to it.
func (t *turns) link(s *Stream) {
	if s.prev != nil {
		s.prev.next = s
	} else {
		t.first = s
	}
	if s.next != nil {
		s.next.prev = s
	} else {
		t.last = s
	}
}

// wakeStream lets the Write that waits on s look again. c.mu is held.
func (c *Conn) wakeStream(s *Stream) {
	if !s.waiting {
		return
	}
	c.dropWaiter(s)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// offer wakes the Write that waits on s if there is something for it. c.mu is
// held.
func (c *Conn) offer(s *Stream) {
	if !s.waiting {
		return
	}
	if n := c.share(s, s.want); n > 0 {
		s.promised = int64(n)
		c.send.turns.promised += s.promised
		c.wakeStream(s)
	}
}

// redeem ends the promise made to s, whose Write has the lock now. c.mu is held.
func (c *Conn) redeem(s *Stream) {
	c.send.turns.promised -= s.promised
	s.promised = 0
}

// wakeWaiters wakes the Writes that can go on. It must be called whenever there
// may be more for them than before. c.mu is held.
func (c *Conn) wakeWaiters() {
	for s := c.send.turns.first; s != nil; {
		if c.send.conn <= 0 || c.queued() >= queueHigh {
			return
		}
		next := s.next
		c.offer(s)
		s = next
	}
}
