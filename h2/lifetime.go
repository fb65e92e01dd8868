package h2

// lifetime is how far a connection has come, why it ends, and how long its end may take. It alone sets the deadlines of the net.Conn
// and has the connection's timers (deadlines.go). Guarded by Conn.mu, except received.
type lifetime struct {
	life     life
	bound    bound     // of the time to the end
	limited  bound     // the bound that the deadline is of
	endless  bool      // the net.Conn takes no deadline
	why      error     // why the connection ends; nil before it is closing
	shutdown *shutdown // nil: Shutdown has not been called
	limit    instant   // when reading ends, or is looked at again
	last     instant   // untilEnded: when it ends in any case
	heard    instant   // untilEnded: when something came last
	acked    uint64    // noteAcked's
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
	untilSent        // everything is to be sent: stuckTimeout after the peer has taken something last
	untilEnded       // everything is sent, the peer is to end its side: heardTimeout after it has sent or taken something last, closeTimeout in all
	untilAbort       // abortTimeout, whatever comes
)

// lifeStep is one cell of the table: where an event leads, and what bounds the end from then on.
type lifeStep struct {
	to    life
	bound bound
}

// lifeTable is the table of all of them. What is not in it changes nothing.
//
// A client is never announced: its GOAWAY is sent last. A read that fails while a GOAWAY has yet to leave does not keep it from leaving.
var lifeTable = [2][lives][lifeEvents]lifeStep{
	client: {
		alive: {
			shutdownCalled: {to: draining},
			goAwayReceived: {to: draining},
			aborted:        {closing, untilAbort},
			writeFailed:    {shut, untilAbort},
			peerSilent:     {shut, untilAbort},
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
			aborted:        {closing, untilAbort},
			writeFailed:    {shut, untilAbort},
			peerSilent:     {shut, untilAbort},
			readFailed:     {to: shut},
			socketClosed:   {to: dead},
		},
		announced: {
			lastGoAwaySent: {to: draining},
			aborted:        {closing, untilAbort},
			writeFailed:    {shut, untilAbort},
			peerSilent:     {shut, untilAbort},
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
		streamsEnded: {closing, untilSent},
		aborted:      {closing, untilAbort},
		writeFailed:  {shut, untilAbort},
		peerSilent:   {shut, untilAbort},
		readFailed:   {to: shut},
		socketClosed: {to: dead},
	}
	closingSteps = [lifeEvents]lifeStep{
		aborted:      {closing, untilAbort},
		allSent:      {shut, untilEnded},
		writeFailed:  {shut, untilAbort},
		socketClosed: {to: dead},
	}
	shutSteps = [lifeEvents]lifeStep{
		aborted:      {shut, untilAbort},
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
func (l *lifetime) aborting() bool { return l.bound == untilAbort }

// become applies ev and reports whether the connection's life has changed. Opens that wait fail when it does, and its end is bounded as
// the table says: for aborted by the caller, who calls limitEnd when the GOAWAY is sent as far as the system takes it, because a goroutine
// may lose the processor for longer than abortTimeout. c.mu is held.
func (c *Conn) become(ev lifeEvent, why error) bool {
	changed := c.lifetime.advance(c.side, ev, why)
	if changed {
		c.wakeAllOpeners()
	}
	if ev != aborted {
		c.limitEnd()
	}
	return changed
}
