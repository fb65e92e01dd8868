package h2

import (
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/h2/internal/hpack"
	"github.com/tarn-go/tarn/h2/internal/poller"
	"github.com/tarn-go/tarn/wire"
)

// Conn is one HTTP/2 connection. Its methods are safe for concurrent use, except
// that Run is called once.
type Conn struct {
	nc       net.Conn
	cfg      *Config   // shared by the connections of a Maker
	counters *counters // so are these
	h        Handler
	events   ConnHandler   // h, or nil
	batch    BatchHandler  // h, or nil
	done     chan struct{} // made by Done, or closed at the end; under mu

	in     *reading    // Run's own; nil while the connection rests
	packed string      // and then the decoder's table
	onEnd  func(error) // of Start; nil: Run
	since  time.Time   // when it began to run
	place  int         // in counters.live
	polled poller.Key  // while the poller waits for input; 0: it does not; under mu

	// Together, because each would otherwise take eight bytes of every connection.
	side        side
	mayIdle     bool  // the connection may rest; see idle.go
	prefaceRead bool  // the caller has read the client's preface
	handling    bool  // Run handles frames that it has read, and flushes when it has; under mu
	warned      bool  // that the peer has sent GOAWAY with an error code; Run's own
	rest        rest  // under mu
	idleBackoff uint8 // deadlines in a row at which streams were open, or early priorities kept, and nothing had come; under mu

	mu       sync.Mutex
	streams  *streamSet // open, by number; nil: none since the connection was idle
	current  *Stream    // in a callback, or was last: not to be reused yet
	free     *Stream    // spare streams, linked by next
	inUse    int        // streams open or not yet released
	opened   int        // streams that count against the limit
	headers  int        // size of the header lists of streams that have not been released
	nextID   uint32     // client: of the next stream to open
	lastID   uint32     // server: the highest that the peer opened
	nfree    int32      // spare streams
	lifetime lifetime
	enc      hpack.Encoder
	peer     peer
	ready    *scheduler // the Writes whose DATA can be sent
	openers  []opener   // Opens that wait, in the order in which they began to
	send     sender
	inflow   inflow
	limiter  limiter
	pings    pings

	starts startGate
	goAway *GoAwayError // what the peer said last
	recent *recent      // streams that this side reset, for which frames may be under way; nil: none
}

// greet queues what a side sends first. It is sent with the first write.
func (c *Conn) greet() {
	if c.side == client {
		c.send.outgoing().Write([]byte(Preface))
	}
	type setting struct {
		id settingID
		v  int
	}
	set := []setting{{setMaxFrame, c.cfg.MaxFrameSize}, {setWindow, c.cfg.Window}, {setHeaderList, c.cfg.MaxHeaderList}}
	if c.side == client {
		set = append(set, setting{setEnablePush, 0})
	} else {
		set = append(set, setting{setMaxStreams, c.cfg.MaxStreams}, setting{setNoPriorities, 1})
		if c.cfg.ExtendedConnect == Permit {
			set = append(set, setting{setExtendedConnect, 1})
		}
	}
	p := c.put(frame{typ: frameSettings, length: settingLen * len(set)})
	for i, s := range set {
		putSetting(p[i*settingLen:], s.id, uint32(s.v))
	}
	c.inflow.announce(now())
	if d := c.cfg.ConnWindow - initialWindow; d > 0 {
		c.putWindow(0, d)
	}
}

// Run reads the connection and calls the handler until the connection is over,
// then fails what streams are left and closes the net.Conn. It returns nil when
// this side ended the connection with Close or Shutdown or the peer closed it with
// no stream open; otherwise why it ended.
func (c *Conn) Run() error {
	c.begin()
	return c.teardown(c.loop())
}

// begin sends the greeting, without waiting for that before Run reads: over a net.Conn
// that holds nothing (net.Pipe) both sides would wait for each other.
func (c *Conn) begin() {
	c.since = time.Now()
	c.counters.enlist(c)
	c.mu.Lock()
	c.inflow.leave(now())
	if c.side == client {
		c.limitUnused()
	}
	c.send.flush(flushPromptly)
	c.mu.Unlock()
	c.beginKeepalive()
}

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// NetConn returns the connection underneath. It must not be read or written.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Err returns why the connection ended; nil while it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lifetime.reached(dead) {
		return nil
	}
	return c.lifetime.reason()
}

// Streams returns how many streams are open or not yet released.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inUse
}

// Unusable returns why no stream can be opened any more; nil: streams can be opened, if
// need be once others have ended.
func (c *Conn) Unusable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openable()
}

// Greeted reports whether the peer's first SETTINGS are in force. They are just before OnSettings is called.
func (c *Conn) Greeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer.greeted
}

// StreamLimit returns how many streams a client may have open at a time, without those that count because of
// Config.ProbeResets; 0 when none can be opened now, or any more.
func (c *Conn) StreamLimit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.openable() != nil || c.pings.doubtful >= mostDoubtful {
		return 0
	}
	return c.peer.maxStreams - c.pings.doubtful
}

// Windows returns how many bytes of DATA the peer may send on the connection now, and how
// many this side may.
func (c *Conn) Windows() (local, remote int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inflow.connWindow(), c.peer.conn
}

// CanOpen reports whether Open would find a stream now without waiting: the Opens that wait
// already do not take all of them.
func (c *Conn) CanOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.side == client && c.openable() == nil && c.opened+len(c.openers) < c.peer.maxStreams && c.pings.doubtful < mostDoubtful
}

// PrefaceRead is called on a server's connection, before Run or Start, when the caller
// has read the client's preface from the net.Conn.
func (c *Conn) PrefaceRead() { c.prefaceRead = true }

// Start is Run on goroutines of its own: it does not wait, and what Run would
// return is passed to ended when the connection is over. A started connection on
// which nothing has come for half a second while no stream was open becomes idle, unless
// its peer has sent the priority of a stream that it has yet to open: it
// drops what only a busy connection needs, and its goroutine ends, since a goroutine keeps
// the stack that it has grown to. On Linux one goroutine of the process then waits for the
// peers of all idle connections; elsewhere, and while the connection is being ended, a new
// one waits for this one's. A connection with open streams on which nothing has come for about
// two seconds, and nothing is being sent, becomes quiet: the same, except that it keeps its streams, which
// are written to and end as on others. That applies to plain TCP and Unix connections, TLS over them,
// and connections for which AllowIdle was called. When code other than this package closes
// the net.Conn of an idle or quiet connection, the connection may end up to a second later.
func (c *Conn) Start(ended func(error)) {
	c.onEnd = ended
	if wire.CanAwait(c.nc) {
		c.mayIdle = true
	}
	go func() {
		c.begin()
		c.work()
	}()
}

// work reads the connection until it rests or is over.
func (c *Conn) work() {
	err := c.loop()
	if err == errIdle {
		c.in.r.Release()
		until := c.in.until
		c.packed, c.in = c.in.dec.Pack(), nil
		if !c.pollIdle(until) {
			go c.waitIdle()
		}
		return
	}
	c.onEnd(c.teardown(err))
}
