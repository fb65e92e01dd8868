package h2

import (
	"net"
	"time"

	"github.com/tarn-go/tarn/wire"
)

const (
	// queueHigh is how many bytes may wait to be written before Write waits too.
	queueHigh = 1 << 20
	// flushRounds is how many batches a caller sends for others before a goroutine
	// takes over.
	flushRounds = 4
	// farewell is how long a connection that is broken off may take to say so.
	farewell = 250 * time.Millisecond
	// patience is how long one that ends in order waits for the peer to hang up,
	// once everything is sent.
	patience = 5 * time.Second
)

// sending is the outgoing half of a connection; guarded by Conn.mu, except that
// w and the batch being sent belong to whoever set busy.
type sending struct {
	w               *wire.Writer // this and the batches: nil until something is to be sent
	out, spare      *wire.Batch  // gathering; and empty, unless it is being sent
	busy            bool         // somebody sends
	yielding        bool         // somebody is about to
	window          int64        // what a new stream may send: the peer's INITIAL_WINDOW_SIZE
	conn            int64        // what the connection may send
	maxFrame        int          // the peer's MAX_FRAME_SIZE
	maxStreams      int          // client: how many streams may be open
	greeted         bool         // the peer's first SETTINGS have come
	extendedConnect bool         // the peer permits extended CONNECT
	turns           turns        // of Writes that wait for a window or for the queue
	openers         []chan struct{}
	idle            chan struct{} // closed when busy ends; nil: nobody waits for that
	closing         bool          // when all is sent, nothing more will be
	shut            bool          // nothing more is sent
	hurried         bool          // and the peer is not waited for
	limit           time.Time     // when reading ends, once that is settled
}

func (s *sending) init() {
	s.window, s.conn = initialWindow, initialWindow
	s.maxFrame = minMaxFrame
	s.maxStreams = assumedStreams
}

// flushMode says what flush may cost its caller.
type flushMode uint8

const (
	mayBlock  flushMode = iota // the caller may wait for the network
	deferred                   // it may not; and while Run is amid a batch, Run will do it
	immediate                  // it may not, but it shall be done now
)

// flush sends what is queued, unless somebody is at it or about to be, who then
// takes it along.
// c.mu is held, but not throughout: state may have changed when flush returns.
func (c *Conn) flush(mode flushMode) {
	if c.send.shut {
		c.dropQueued()
	}
	if c.send.busy {
		return
	}
	if c.recv.amid && mode == deferred || c.send.yielding && mode != immediate {
		return // it will be done
	}
	c.send.busy = true
	for round := 0; c.queued() > 0; round++ {
		b := c.swap()
		if round == flushRounds {
			go c.drain(b)
			return
		}
		c.mu.Unlock()
		sent, err := c.send.w.TrySend(b)
		if sent == wire.Unsent {
			if mode != mayBlock || !c.mustBlock() {
				c.mu.Lock()
				go c.drain(b)
				return
			}
			err = c.send.w.Send(b)
		}
		c.mu.Lock()
		c.flushed(b, err)
	}
	c.send.busy = false
	c.allSent()
}

// mustBlock reports whether the caller itself waits for the network: where
// nothing can be tried, a goroutine for each write would cost more.
func (c *Conn) mustBlock() bool { return !c.send.w.CanTry() }

// drain sends b and whatever is queued meanwhile, on a goroutine of its own.
func (c *Conn) drain(b *wire.Batch) {
	for {
		err := c.send.w.Send(b)
		c.mu.Lock()
		c.flushed(b, err)
		if c.queued() == 0 {
			break
		}
		b = c.swap()
		c.mu.Unlock()
	}
	c.send.busy = false
	c.allSent()
	c.mu.Unlock()
}

// swap takes the gathered batch for sending. c.mu is held.
func (c *Conn) swap() *wire.Batch {
	b := c.send.out
	c.send.out, c.send.spare = c.send.spare, nil
	c.guard.replies = 0
	c.wakeWaiters() // to gather the next while this one is sent
	return b
}

// flushed takes back a batch after sending. c.mu is held.
func (c *Conn) flushed(b *wire.Batch, err error) {
	c.send.spare = b
	if err != nil {
		c.dropQueued()
		c.breakOff(err)
	}
}

// outgoing returns the batch that gathers what is to be sent. c.mu is held.
func (c *Conn) outgoing() *wire.Batch {
	if c.send.out == nil {
		c.wakeSend()
	}
	return c.send.out
}

// queued returns how many bytes wait to be sent. c.mu is held.
func (c *Conn) queued() int {
	if c.send.out == nil {
		return 0
	}
	return c.send.out.Len()
}

// dropQueued forgets them. c.mu is held.
func (c *Conn) dropQueued() {
	if c.send.out != nil {
		c.send.out.Reset()
	}
}

// put queues a frame header and returns the payload to be filled in before c.mu
// is given up. c.mu is held; f.length is at most wire.MaxPeek - frameHeaderLen.
func (c *Conn) put(f frame) []byte {
	p := c.outgoing().Space(frameHeaderLen + f.length)
	putFrame(p, f)
	return p[frameHeaderLen:]
}

// allSent is called when nobody sends any more. It ends the writing half once
// the last words are out. c.mu is held.
func (c *Conn) allSent() {
	if c.send.idle != nil {
		close(c.send.idle)
		c.send.idle = nil
	}
	if !c.send.closing || c.send.shut || c.queued() > 0 {
		return
	}
	c.send.shut = true
	if c.err == ErrClosed && !c.send.hurried {
		c.send.limit = time.Now().Add(patience)
		c.nc.SetReadDeadline(c.send.limit)
	}
	if h, ok := c.nc.(interface{ CloseWrite() error }); ok {
		// Not Close: the peer's last frames would reset what it has yet to read.
		c.aside(h.CloseWrite)
		return
	}
	c.aside(c.nc.Close)
}

// aside calls what ends a connection. A plain socket does so at once; others (TLS
// says goodbye) may wait for the peer, which must not happen under c.mu.
func (c *Conn) aside(end func() error) {
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		end()
	default:
		go end()
	}
}

// breakOff ends the connection because of err; Run notices and tells everyone.
// c.mu is held.
func (c *Conn) breakOff(err error) {
	if c.err == nil {
		c.err = err
	}
	c.dropQueued()
	c.aside(c.nc.Close)
}
