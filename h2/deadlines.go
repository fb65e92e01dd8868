package h2

import (
	"os"
	"sync/atomic"
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
	case untilSent:
		l.limit = now + instant(stuckTimeout)
		c.noteAcked()
	case untilEnded:
		l.limit = now + instant(heardTimeout)
		if s := l.shutdown; s != nil && s.silent {
			l.limit = now + instant(silentTimeout)
		}
		l.last = now + instant(closeTimeout)
		c.noteAcked()
	case untilAbort:
		l.limit = now + instant(abortTimeout)
		set = c.nc.SetDeadline
	}
	l.endless = set(l.limit.time()) != nil
	c.stopPolling()
}

// isLimited reports whether the net.Conn has taken the deadline of its end.
func (l *lifetime) isLimited() bool { return !l.endless }

// onLimit is called when Run's read has met a deadline of a connection that ends. It returns nil if Run is to read on. c.mu is held.
func (c *Conn) onLimit() error {
	l, now := &c.lifetime, now()
	if now < l.limit {
		return nil // an earlier deadline was met
	}
	var took instant
	if l.bound < untilAbort && c.noteAcked() {
		took = now
	}
	l.limit = l.nextLimit(now, took)
	if l.limit <= now {
		return os.ErrDeadlineExceeded
	}
	c.nc.SetReadDeadline(l.limit.time())
	return nil
}

// nextLimit returns until when a connection that ends is read on after its limit, when the peer has last taken something at took, or not
// since the limit was set (0); not after now: it is not.
func (l *lifetime) nextLimit(now, took instant) instant {
	next := now
	switch {
	case l.bound == untilSent && took != 0:
		next = took + instant(stuckTimeout)
	case l.bound == untilEnded && took != 0:
		next = took + instant(heardTimeout)
	case l.bound == untilEnded && l.heard != 0:
		next = l.heard + instant(heardTimeout)
	}
	if l.bound == untilEnded {
		next = min(next, l.last)
	}
	return next
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

// noteHeard notes that the peer has sent something, for a connection that ends. c.mu is held.
func (l *lifetime) noteHeard() {
	if s := l.shutdown; s != nil && s.asked {
		s.answered = true
	}
	if l.bound == untilEnded {
		l.heard = now()
	}
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

// unused is what Config.IdleTimeout knows of a connection on which no stream is in use.
type unused struct {
	ender      *time.Timer // nil: the timeout is off, or has not begun
	unusedFrom instant     // when the last stream was released
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
	if rest := l.untilEnded(now(), c.cfg.IdleTimeout, c.inUse); rest > 0 {
		l.ender.Reset(rest)
		return
	}
	c.shutdown(c.cfg.IdleDebug)
}

// untilEnded is after how long a connection with that many streams is to be looked at again; not above 0: it ends.
func (u *unused) untilEnded(now instant, timeout time.Duration, streams int) time.Duration {
	if streams > 0 {
		return timeout
	}
	return timeout - now.since(u.unusedFrom)
}

// silence is what keepalive knows of a peer that may be silent.
type silence struct {
	timer    *time.Timer  // nil: off, or the connection is idle
	asked    instant      // when keepalive sent a PING last; 0: never
	received atomic.Int64 // the instant at which something came last; under no lock
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

// untilAsked is after how long the next keepalive PING is due if nothing comes before; not above 0: it is.
func (s *silence) untilAsked(now instant, after time.Duration) time.Duration {
	return after - now.since(instant(s.received.Load()))
}

// awaits reports whether keepalive waits for an answer.
func (s *silence) awaits() bool { return s.asked != 0 && s.asked > instant(s.received.Load()) }

// stopKeepalive stops keepalive's timer. c.mu is held.
func (c *Conn) stopKeepalive() {
	if l := &c.lifetime; l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// keepaliveStep is what keepalive does when its timer has run out.
type keepaliveStep uint8

const (
	askLater keepaliveStep = iota
	sendPing
	breakSilent
)

// next returns what keepalive does now, and after how long it looks again.
func (s *silence) next(now instant, k *Keepalive, streams int) (keepaliveStep, time.Duration) {
	due := s.untilAsked(now, k.Time)
	switch {
	case s.awaits():
		if rest := k.Timeout - now.since(s.asked); rest > 0 {
			return askLater, rest
		}
		return breakSilent, 0
	case due > 0:
		return askLater, due
	case streams == 0 && k.WithoutStream == Deny:
		return askLater, k.Time
	}
	return sendPing, min(k.Timeout, k.Time) // the answer may have come by then, and nothing since
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

// shutdown is what a call of Shutdown leaves for the end of the connection.
type shutdown struct {
	debug    string
	timer    *time.Timer // server: onShutdownTimer
	until    time.Time   // server: when the second GOAWAY is sent if no answer to PING has come
	asked    bool        // server: the PING is sent
	answered bool        // server: and something has come since
	silent   bool        // server: nothing has for silentTime
}

// begin notes that Shutdown was called.
func (l *lifetime) begin(debug string) { l.shutdown = &shutdown{debug: debug} }

// debug is what Shutdown was called with.
func (l *lifetime) debug() string {
	if l.shutdown == nil {
		return ""
	}
	return l.shutdown.debug
}

// shutdownWasCalled reports whether Shutdown was called while the connection was alive.
func (l *lifetime) shutdownWasCalled() bool { return l.shutdown != nil }

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
	rest := time.Until(s.until)
	// What is queued here, the PING perhaps, has not been sent to a client that is slow to take what precedes it.
	s.silent = s.asked && !s.answered && !c.noteAcked() && !c.send.sends()
	switch {
	case rest <= 0 || s.silent:
		c.goAwayLast()
	case s.asked && !s.answered:
		s.timer.Reset(min(silentTime, rest))
	case !s.asked && c.inUse == 0:
		c.askGoAway()
	default:
		s.timer.Reset(rest)
	}
	c.send.flush(flushWithRun)
}
