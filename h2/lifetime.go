package h2

import (
	"sync/atomic"
	"time"
)

// lifetime is how far a connection has come, why it ends, and how long its end may take. The methods of Conn in deadlines.go set the
// net.Conn's deadlines and the timers that it has. Guarded by Conn.mu, except received.
type lifetime struct {
	life            life
	bound           bound     // of the time to the end
	limited         bound     // the bound that the deadline is of
	refusesDeadline bool      // the net.Conn has refused the deadline of its end
	why             error     // why the connection ends; nil before it is closing
	shutdown        *shutdown // nil: Shutdown has not been called
	limit           instant   // when reading ends, or is looked at again
	last            instant   // closeBound: when it ends in any case
	heard           instant   // closeBound: when something came last
	acked           uint64    // noteAcked's
	silence
	unused
}

// life is how far a connection has come. It only increases.
type life uint8

const (
	alive     life = iota
	announced      // server: the first of two GOAWAYs is sent
	draining       // no new streams; it is closing after the last one
	closing        // what is queued is the last that is sent
	shut           // nothing is sent any more; what comes is read
	dead           // nothing is read either: the net.Conn is closed
	lives
)

// rest is whether Run has stopped reading a connection that is alive, because nothing comes; idle.go has what follows.
type rest uint8

const (
	notResting rest = iota
	quiet           // streams are open
	idle            // none was
)

// lifeEvent is what changes the life of a connection.
type lifeEvent uint8

const (
	shutdownCalled lifeEvent = iota // Shutdown
	lastGoAwaySent                  // server: the second GOAWAY is queued
	goAwayReceived                  // the peer's GOAWAY: a client may open no more streams
	streamsEnded                    // all streams have ended and been released
	aborted                         // Abort, Close or a fault of the peer: a GOAWAY is queued
	allSent                         // what was queued has left
	writeFailed                     // a write
	peerSilent                      // keepalive has had no answer
	readFailed                      // Run's read, or the peer has ended its side
	socketClosed                    // the net.Conn is closed
	lifeEvents
)

// bound is what bounds the time for which Run reads on while a connection ends. It only increases: an end is never put off.
type bound uint8

const (
	unbounded  bound = iota
	sendBound        // everything is to be sent: stuckTimeout after the peer has taken something last
	closeBound       // everything is sent, the peer is to end its side: heardTimeout after it has sent or taken something last, closeTimeout in all
	abortBound       // abortTimeout, whatever comes
)

// lifeStep is one cell of the table: where an event leads, and what bounds the end from then on.
type lifeStep struct {
	to    life
	bound bound
}

// lifeTable is the table of all of them. What is not in it changes neither life nor bound; readFailed may still say more of why (advance).
//
// A client is never announced: its GOAWAY is sent last. A read that fails while a GOAWAY has yet to leave does not keep it from leaving.
var lifeTable = [2][lives][lifeEvents]lifeStep{
	client: {
		alive: {
			shutdownCalled: {to: draining},
			goAwayReceived: {to: draining},
			aborted:        {closing, abortBound},
			writeFailed:    {shut, abortBound},
			peerSilent:     {shut, abortBound},
			readFailed:     {to: shut},
			socketClosed:   {to: dead},
		},
		draining: drainingSteps,
		closing:  closingSteps,
		shut:     shutSteps,
	},
	server: {
		alive: {
			shutdownCalled: {to: announced},
			aborted:        {closing, abortBound},
			writeFailed:    {shut, abortBound},
			peerSilent:     {shut, abortBound},
			readFailed:     {to: shut},
			socketClosed:   {to: dead},
		},
		announced: {
			lastGoAwaySent: {to: draining},
			aborted:        {closing, abortBound},
			writeFailed:    {shut, abortBound},
			peerSilent:     {shut, abortBound},
			readFailed:     {to: shut},
			socketClosed:   {to: dead},
		},
		draining: drainingSteps,
		closing:  closingSteps,
		shut:     shutSteps,
	},
}

var (
	drainingSteps = [lifeEvents]lifeStep{
		streamsEnded: {closing, sendBound},
		aborted:      {closing, abortBound},
		writeFailed:  {shut, abortBound},
		peerSilent:   {shut, abortBound},
		readFailed:   {to: shut},
		socketClosed: {to: dead},
	}
	closingSteps = [lifeEvents]lifeStep{
		aborted:      {closing, abortBound},
		allSent:      {shut, closeBound},
		writeFailed:  {shut, abortBound},
		socketClosed: {to: dead},
	}
	shutSteps = [lifeEvents]lifeStep{
		aborted:      {shut, abortBound},
		socketClosed: {to: dead},
	}
)

// advance applies ev and reports whether the life has changed. A reason that is known stays, except that a read's end may say more.
func (l *lifetime) advance(s side, ev lifeEvent, why error) bool {
	step := lifeTable[s][l.life][ev]
	l.bound = max(l.bound, step.bound)
	changed := step.to > l.life
	if changed {
		l.life = step.to
	}
	if l.life >= closing && l.life < dead && (l.why == nil || ev == readFailed) {
		l.why = why
	}
	return changed
}

// is reports whether the connection is in that life.
func (l *lifetime) is(x life) bool { return l.life == x }

// reached reports whether it is in that life or a later one.
func (l *lifetime) reached(x life) bool { return l.life >= x }

// reason returns why the connection ends; nil before it is closing.
func (l *lifetime) reason() error { return l.why }

// aborting reports whether the peer's end is not waited for.
func (l *lifetime) aborting() bool { return l.bound == abortBound }

// takesDeadlines reports whether the net.Conn has not refused the deadline of its end, which may have yet to be set.
func (l *lifetime) takesDeadlines() bool { return !l.refusesDeadline }

// nextLimit returns until when a connection that ends is read on after its limit, when the peer has last taken something at took, or not
// since the limit was set (0); not after now: it is not.
func (l *lifetime) nextLimit(now, took instant) instant {
	next := now
	switch {
	case l.bound == sendBound && took != 0:
		next = took + instant(stuckTimeout)
	case l.bound == closeBound && took != 0:
		next = took + instant(heardTimeout)
	case l.bound == closeBound && l.heard != 0:
		next = l.heard + instant(heardTimeout)
	}
	if l.bound == closeBound {
		next = min(next, l.last)
	}
	return next
}

// noteHeard notes that the peer has sent something, for a connection that ends. c.mu is held.
func (l *lifetime) noteHeard() {
	if s := l.shutdown; s != nil && s.asked {
		s.answered = true
	}
	if l.bound == closeBound {
		l.heard = now()
	}
}

// unused is what Config.IdleTimeout knows of a connection on which no stream is in use.
type unused struct {
	ender      *time.Timer // nil: the timeout is off, or has not begun
	unusedFrom instant     // when the last stream was released
}

// untilDue is after how long a connection with that many streams is to be looked at again; not above 0: it ends.
func (u *unused) untilDue(now instant, timeout time.Duration, streams int) time.Duration {
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

// untilAsked is after how long the next keepalive PING is due if nothing comes before; not above 0: it is.
func (s *silence) untilAsked(now instant, after time.Duration) time.Duration {
	return after - now.since(instant(s.received.Load()))
}

// awaits reports whether keepalive waits for an answer.
func (s *silence) awaits() bool { return s.asked != 0 && s.asked > instant(s.received.Load()) }

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
		if left := k.Timeout - now.since(s.asked); left > 0 {
			return askLater, left
		}
		return breakSilent, 0
	case due > 0:
		return askLater, due
	case streams == 0 && k.WithoutStream == Deny:
		return askLater, k.Time
	}
	return sendPing, min(k.Timeout, k.Time) // the answer may have come by then, and nothing since
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
