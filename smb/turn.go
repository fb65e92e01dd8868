package smb

import (
	"errors"
	"net"
	"time"
)

// Who reads from the connection: one at a time, and somebody whenever a reply is due.
//
// A caller whose requests are the only ones under way reads its replies itself, which
// saves waking another goroutine for each. As soon as there are others, or more than two
// parts of a long call, or the reply is long in coming, the receiver reads, and callers
// wait and decrypt. With nothing under
// way the receiver stands by for a moment, since the next request will follow soon, and
// then reads on: for breaks of leases and the end of the connection.
//
// Guarded by ring.mu:
//
//	nobody -> caller     lead: its requests are the only ones
//	nobody -> receiver   delegate: another request, a failure; or the moment has passed
//	caller -> nobody     cede, nothing being under way that it does not wait for next
//	caller -> receiver   cede, otherwise
//	receiver -> nobody   idle, nothing being under way
type readerKind uint8

const (
	byReceiver readerKind = iota
	byCaller
	byNobody
)

// moment is how long the receiver stands by, and how long a caller may read in vain
// before it has to give up the turn: its context is not looked at meanwhile.
const moment = 5 * time.Millisecond

// turn is whose turn it is to read from a connection.
type turn struct {
	who    readerKind
	since  uint64        // counts the changes
	kicked bool          // the caller whose turn it is was told to stop
	wake   chan struct{} // capacity 1: signalled when the turn was made the receiver's
	timer  *time.Timer   // the receiver's
	shared bool          // callers may have turns: waiting on this connection can be ended
}

func (t *turn) init(nc net.Conn) {
	t.wake = make(chan struct{}, 1)
	t.shared = nc.SetReadDeadline(time.Time{}) == nil
}

// pass gives the turn to who. ring.mu is held.
func (t *turn) pass(who readerKind) {
	t.who = who
	t.since++
}

// delegate has the receiver read when nobody does. ring.mu is held.
func (t *turn) delegate() {
	if t.who == byNobody {
		t.pass(byReceiver)
		t.wake <- struct{}{}
	}
}

// idle ends the receiver's turn when nothing is under way.
func (c *conn) idle() bool {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if !c.ring.turn.shared || c.ring.count > 0 || c.ring.err != nil {
		return false
	}
	c.ring.turn.pass(byNobody)
	return true
}

// standBy returns when it is the receiver's turn again.
func (c *conn) standBy() {
	t := &c.ring.turn
	if t.timer == nil {
		t.timer = time.NewTimer(moment)
	} else {
		t.timer.Reset(moment)
	}
	defer t.timer.Stop()
	var seen uint64
	for {
		select {
		case <-t.wake:
			return
		case <-t.timer.C:
		}
		c.ring.mu.Lock()
		switch {
		case t.since != seen:
			seen = t.since
		case t.who == byNobody:
			t.pass(byReceiver)
			c.ring.mu.Unlock()
			return
		case t.who == byCaller && !t.kicked:
			t.kicked = true
			c.nc.SetReadDeadline(longAgo()) // it is taken off again before anybody reads on
		}
		c.ring.mu.Unlock()
		t.timer.Reset(moment)
	}
}

// lead takes the turn for the caller of cl, if nobody has it.
func (c *conn) lead(cl *call) bool {
	t := &c.ring.turn
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if t.who != byNobody || cl.state != callPending || c.ring.err != nil {
		return false
	}
	t.pass(byCaller)
	return true
}

// errKicked ends a caller's turn. What has been received of a frame stays where it is.
var errKicked = errors.New("smb: another goroutine is to read on")

// readFor reads until cl is over, or it is somebody else's turn. The caller of cl has
// the turn and gives it up.
func (c *conn) readFor(cl *call) {
	for {
		err := c.receiveFrame()
		if err != nil {
			if err != errKicked {
				c.fail(lost(err))
			}
			break
		}
		if cl.ready() || !c.alone(cl) {
			break
		}
	}
	c.cede(cl)
}

// pending counts cl and its mates that are under way. The ring's mu is held.
func (cl *call) pending() (n int) {
	for ; cl != nil; cl = cl.mate {
		if cl.state == callPending {
			n++
		}
	}
	return n
}

// alone reports whether the caller of cl may go on reading after a frame that did not
// end it.
func (c *conn) alone(cl *call) bool {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	return c.ring.count == cl.pending() && !c.ring.turn.kicked
}

// cede gives up the turn of the caller of cl: to nobody when at most mates of cl are
// left, since their turn comes next.
func (c *conn) cede(cl *call) {
	t := &c.ring.turn
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if t.kicked {
		t.kicked = false
		c.nc.SetReadDeadline(time.Time{})
	}
	t.pass(byNobody)
	if c.ring.count > cl.mate.pending() || c.ring.err != nil || c.in.n > 0 {
		t.delegate()
	}
}

// interrupted sorts out why a read met a deadline: the reader is to give up its turn, or
// the slice of cl is wanted back, or both, or neither: then it was none of ours.
func (c *conn) interrupted(cl *call) (kicked, wanted bool) {
	t := &c.ring.turn
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	kicked, wanted = t.kicked, cl != nil && cl.divert
	if kicked || wanted {
		t.kicked = false
		c.nc.SetReadDeadline(time.Time{})
	}
	if wanted {
		cl.state = callDone
		cl.done <- struct{}{}
	}
	return kicked, wanted
}
