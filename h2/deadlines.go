package h2

import (
	"os"
	"time"
)

// lookAgain has Run's read, or the wait for input of an idle connection, meet a deadline at t, unless the connection ends; zero: none.
// c.mu is held.
func (c *Conn) lookAgain(t time.Time) {
	if !c.lifetime.reached(closing) {
		c.nc.SetReadDeadline(t)
	}
}

// limitEnd sets the deadline of the bound that the connection's end has. One that is set stays: calling Close again and again puts nothing
// off. c.mu is held.
func (c *Conn) limitEnd() {
	l := &c.lifetime
	if l.limited >= l.bound {
		return
	}
	l.limited = l.bound
	now := now()
	set := c.nc.SetReadDeadline
	switch l.bound {
	case sendBound:
		l.limit = now + instant(stuckTimeout)
		c.noteAcked()
	case closeBound:
		l.limit = now + instant(heardTimeout)
		if s := l.shutdown; s != nil && s.silent {
			l.limit = now + instant(silentTimeout)
		}
		l.last = now + instant(closeTimeout)
		c.noteAcked()
	case abortBound:
		l.limit = now + instant(abortTimeout)
		set = c.nc.SetDeadline
	}
	l.refusesDeadline = set(l.limit.time()) != nil
	c.stopPolling()
}

// onLimit is called when Run's read has met a deadline of a connection that ends. It returns nil if Run is to read on. c.mu is held.
func (c *Conn) onLimit() error {
	l, now := &c.lifetime, now()
	if now < l.limit {
		return nil // an earlier deadline was met
	}
	var took instant
	if l.bound < abortBound && c.noteAcked() {
		took = now
	}
	l.limit = l.nextLimit(now, took)
	if l.limit <= now {
		return os.ErrDeadlineExceeded
	}
	c.nc.SetReadDeadline(l.limit.time())
	return nil
}

// noteAcked reports whether the peer has taken some of what is sent since the last call, and has not taken all of it: it is slow
// and not gone. A peer's system takes something for a program that reads nothing, too, but not for long. c.mu is held.
func (c *Conn) noteAcked() bool {
	acked, others, ok := ackedBytes(c.nc)
	if !ok {
		acked = c.send.sentBatches()
	}
	took := acked > c.lifetime.acked && (others || c.send.sends())
	c.lifetime.acked = acked
	return took
}

// endsWithin reports whether done is closed within abortTimeout.
func endsWithin(done <-chan struct{}) bool {
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// idlesUntil returns when the wait for input of an idle connection ends, so that keepalive asks; zero: never. Keepalive's timer is stopped.
// c.mu is held.
func (c *Conn) idlesUntil() time.Time {
	if c.lifetime.timer == nil {
		return time.Time{}
	}
	c.stopKeepalive()
	if c.cfg.Keepalive.WithoutStream == Deny {
		return time.Time{}
	}
	return time.Now().Add(c.untilAsked())
}

// abortAfter aborts the connection because of why after d, unless the timer is stopped before.
func (c *Conn) abortAfter(d time.Duration, why *ConnError) *time.Timer {
	return time.AfterFunc(d, func() { c.abort(why.Code, why.Reason, why) })
}

// stopTimers stops the timers of a connection that is dead. c.mu is held.
func (c *Conn) stopTimers() {
	c.stopKeepalive()
	if s := c.lifetime.shutdown; s != nil && s.timer != nil {
		s.timer.Stop()
	}
	if t := c.lifetime.ender; t != nil {
		t.Stop()
	}
}

// limitUnused has the connection end when it has not been used for Config.IdleTimeout from now on, or since its last stream. c.mu is held.
func (c *Conn) limitUnused() {
	d, l := c.cfg.IdleTimeout, &c.lifetime
	if d <= 0 || !l.is(alive) {
		return
	}
	l.unusedFrom = now()
	l.ender = time.AfterFunc(d, c.onUnused)
}

// noteUnused notes that the last stream has been released. c.mu is held.
func (c *Conn) noteUnused() {
	if c.cfg.IdleTimeout > 0 {
		c.lifetime.unusedFrom = now()
	}
}

// onUnused ends the connection if it has not been used for Config.IdleTimeout.
func (c *Conn) onUnused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.lifetime
	if !l.is(alive) {
		return
	}
	if left := l.untilDue(now(), c.cfg.IdleTimeout, c.inUse); left > 0 {
		l.ender.Reset(left)
		return
	}
	c.shutdown(c.cfg.IdleDebug)
}

// noteReceived notes that the peer has sent something, for keepalive.
func (c *Conn) noteReceived() {
	if c.cfg.Keepalive.Time > 0 {
		c.lifetime.received.Store(int64(now()))
	}
}

func (c *Conn) beginKeepalive() {
	if c.cfg.Keepalive.Time <= 0 {
		return
	}
	c.noteReceived()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchPeer(c.cfg.Keepalive.Time)
}

// watchPeer sets keepalive's timer to d unless it is set, or the connection ends. c.mu is held.
func (c *Conn) watchPeer(d time.Duration) {
	if l := &c.lifetime; l.timer == nil && c.cfg.Keepalive.Time > 0 && !l.reached(closing) {
		l.timer = time.AfterFunc(d, c.onKeepalive)
	}
}

// untilAsked is after how long the next keepalive PING is due if nothing comes before; not above 0: it is. c.mu is held.
func (c *Conn) untilAsked() time.Duration {
	return c.lifetime.untilAsked(now(), c.cfg.Keepalive.Time)
}

// stopKeepalive stops keepalive's timer. c.mu is held.
func (c *Conn) stopKeepalive() {
	if l := &c.lifetime; l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// onKeepalive is called when a keepalive PING, or the end of waiting for its answer, may
// be due.
func (c *Conn) onKeepalive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, now := &c.lifetime, now()
	if l.timer == nil || l.reached(closing) {
		return
	}
	do, after := l.next(now, &c.cfg.Keepalive, c.inUse)
	switch do {
	case breakSilent:
		c.breakOff(&ConnError{Code: NoError, Fault: Peer, Reason: noKeepaliveAnswer})
		return
	case sendPing:
		l.asked = now
		c.putPing(0, alivePing)
		c.send.flush(flushPromptly)
	}
	l.timer.Reset(after)
}

// breakOff ends the connection at once because of err. Run's read fails then, and Run
// calls OnReset for every stream. c.mu is held.
func (c *Conn) breakOff(err error) {
	c.become(peerSilent, err)
	c.send.dropQueued()
	c.aside(c.nc.Close)
}

// announce has the second GOAWAY follow the first within goAwayTimeout. c.mu is held.
func (c *Conn) announce() {
	s := c.lifetime.shutdown
	s.until = time.Now().Add(goAwayTimeout)
	s.timer = time.AfterFunc(goAwayTimeout, c.onShutdownTimer)
	if c.inUse == 0 {
		c.askGoAway()
	}
}

// askGoAway sends the PING between a server's two GOAWAYs. While a stream is open it is left for goAwayDelay after the
// last has ended: clients close the connection by themselves then, but one that has a PING to answer may not (Apache's
// mod_proxy_http2 keeps a connection for another request, which fails, if the PING arrives with a response's end).
// c.mu is held.
func (c *Conn) askGoAway() {
	s := c.lifetime.shutdown
	s.asked = true
	s.timer.Reset(min(silentTime, time.Until(s.until)))
	c.noteAcked()
	c.putPing(0, goAwayPing)
}

// askGoAwaySoon is called when the last stream between a server's two GOAWAYs has ended. c.mu is held.
func (c *Conn) askGoAwaySoon() {
	if s := c.lifetime.shutdown; !s.asked {
		s.timer.Reset(min(goAwayDelay, time.Until(s.until)))
	}
}

// onShutdownTimer sends the PING between a server's two GOAWAYs, or the second GOAWAY.
func (c *Conn) onShutdownTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lifetime.is(announced) {
		return
	}
	s := c.lifetime.shutdown
	left := time.Until(s.until)
	// What is queued here, the PING perhaps, has not been sent to a client that is slow to take what precedes it.
	s.silent = s.asked && !s.answered && !c.noteAcked() && !c.send.sends()
	switch {
	case left <= 0 || s.silent:
		c.goAwayLast()
	case s.asked && !s.answered:
		s.timer.Reset(min(silentTime, left))
	case !s.asked && c.inUse == 0:
		c.askGoAway()
	default:
		s.timer.Reset(left)
	}
	c.send.flush(flushWithRun)
}
