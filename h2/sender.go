package h2

import (
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/wire"
)

// sender owns writing. Frames are encoded into a batch by the goroutine that makes
// them (put.go). DATA that must wait, for a window or because the batch is full,
// stays with its stream (schedule.go). flush makes both be sent: by its caller as far as
// the socket takes it without waiting, otherwise by a writer goroutine, which
// exists only while bytes wait. So no caller ever waits for the network; a Write
// whose DATA is not in a batch yet waits for that, on its context as well.
//
// It is guarded by Conn.mu, except that w and the batch under way belong to the
// goroutine that writes.
type sender struct {
	w      *wire.Writer // nil, like the batches, until needed and while the connection is idle
	out    *wire.Batch  // gathers what is to be sent
	spare  *wire.Batch  // the other batch: empty, or nil while it is under way
	front  *wire.Batch  // frames that are put into the batch under way, or before out; nil: there have not been any
	urgent atomic.Bool  // front is not empty
	state  writing

	number  uint32 // of out, from 1 on
	unsent  int32  // how many bytes the system may hold that it has not sent; 0: not decided
	blocked int32  // blockedLimit, or less for a slow peer
	sent    uint32 // bytes, counted up to fastAfter
	slow    bool   // a batch has taken slowBatch: unsent stays limited

	begin  *wire.Batch // what the writer goroutine begins with; nil: what nextBatch says
	run    func()      // Conn.writer, bound once
	parked bool        // a writer goroutine waits for more to send
	wake   chan bool   // true: it goes on; false: it ends

	fillTo int // bytes of a batch before DATA waits; admit sets it

	content bool          // what is queued has HEADERS or DATA
	carries bool          // what is being sent has
	failed  bool          // a write has
	batches uint64        // that were sent
	quiet   chan struct{} // closed when sending ends; nil: no goroutine waits for that
}

// writing is who writes.
type writing uint8

const (
	notWriting writing = iota
	gathering          // a caller lets others queue frames, and then flushes
	sending            // a caller in flush, or the writer goroutine
	writings
)

func (s *sender) init() {
	s.fillTo, s.blocked, s.number = batchLimit, blockedLimit, 1
}

// rests reports whether no goroutine sends, or is about to.
func (s *sender) rests() bool { return s.state == notWriting }

// sends reports whether a goroutine sends.
func (s *sender) sends() bool { return s.state == sending }

// admit has a batch take n bytes before DATA waits, or fastLimit where the peer is near and fast.
func (s *sender) admit(n int) {
	if s.unsent == unlimited {
		n = fastLimit
	}
	s.fillTo = n
}

// full reports whether DATA and new streams wait for the next batch.
func (s *sender) full() bool { return s.room() <= 0 }

// room is how many bytes of DATA may be queued yet; at most 0: none.
func (s *sender) room() int {
	if s.out == nil {
		return s.fillTo
	}
	return s.fillTo - s.out.Len()
}

// taken is how many batches have been sent.
func (s *sender) taken() uint64 { return s.batches }

// current is the number of the batch that gathers what is to be sent.
func (s *sender) current() uint32 { return s.number }

// after says where a frame is put that must not come before those of a batch: ahead of others if that batch has been sent.
func (s *sender) after(batch uint32) order {
	if batch == s.number || s.spare == nil && batch == s.number-1 {
		return inTurn
	}
	return ahead
}

// queues reports whether nothing can be put ahead of what is queued: none is being sent, or it begins with what the connection begins with.
func (s *sender) queues() bool { return s.state != sending || s.batches == 0 }

// hasFailed reports whether a write has failed.
func (s *sender) hasFailed() bool { return s.failed }

// broken reports whether part of what was given to the connection may not have been sent.
func (s *sender) broken() bool { return s.failed || s.state == sending }

// putFront puts the frames of front into b, which is, or is about to be, sent.
func (s *sender) putFront(b *wire.Batch) {
	if s.front != nil {
		b.Insert(s.front)
		s.urgent.Store(false)
	}
}

// drop drops what a connection that becomes idle does not need.
func (s *sender) drop() { s.w, s.out, s.spare, s.front, s.run = nil, nil, nil, nil, nil }

// flushMode says what a flush may be left to.
type flushMode uint8

const (
	flushWithRun  flushMode = iota // Run, while it handles frames: it flushes when it has
	flushInTurn                    // a caller that gathers
	flushPromptly                  // what other callers' frames must not delay
	flushModes
)

// flushes says who transmits: a caller that flushes, or (false) the goroutine that sends or gathers already, which looks again.
var flushes = [flushModes][writings]bool{
	flushWithRun:  {notWriting: true},
	flushInTurn:   {notWriting: true},
	flushPromptly: {notWriting: true, gathering: true},
}

// flush makes what is queued be sent. It does not wait. c.mu is held, but not throughout: what is queued, the streams' windows and
// whether the connection has failed may have changed when it returns.
func (c *Conn) flush(m flushMode) {
	if flushes[m][c.send.state] && (m != flushWithRun || !c.handling) {
		c.transmit()
	}
}

// transmit sends what the connection takes without waiting, and starts the writer
// goroutine for the rest. c.mu is held, but not during a system call: nextBatch reads again what is queued, and whether anything may be sent.
func (c *Conn) transmit() {
	s := &c.send
	if c.lifetime.reached(shut) {
		c.dropQueued()
	}
	if !c.pending() {
		c.closeWriting()
		return
	}
	s.state = sending
	c.outgoing() // with DATA alone there may be no writer yet
	if !s.w.CanTry() {
		c.startWriter()
		return
	}
	for batches, bytes := 0, 0; callerSends(batches, bytes); batches++ {
		b := c.nextBatch()
		if b == nil {
			c.stopWriting()
			return
		}
		bytes += b.Len()
		c.mu.Unlock()
		outcome, err := s.w.TrySend(b)
		c.mu.Lock()
		if outcome == wire.Unsent {
			s.begin = b
			c.startWriter()
			return
		}
		c.batchDone(b, err)
	}
	c.startWriter()
}

// callerSends reports whether a caller that has sent that many batches, with that many
// bytes together, sends the next one, too.
func callerSends(batches, bytes int) bool {
	return batches < callerBatches || batches < shortBatches && bytes < batchLimit
}

// startWriter has a writer goroutine send what waits. c.mu is held.
func (c *Conn) startWriter() {
	s := &c.send
	s.admit(int(s.blocked))
	if s.parked {
		s.parked = false
		s.wake <- true
		return
	}
	go s.run()
}

// writer is the writer goroutine: it sends what waits and ends. It gives c.mu up as transmit does.
func (c *Conn) writer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.send
	for {
		b := s.begin
		s.begin = nil
		if b == nil {
			c.letOthersQueue()
			b = c.nextBatch()
		}
		for ; b != nil; b = c.nextBatch() {
			err := c.sendWaiting(b)
			c.batchDone(b, err)
		}
		c.stopWriting()
		if !c.awaitMore() {
			return
		}
	}
}

// sendWaiting sends b, waiting as long as it takes, and what is put ahead meanwhile. c.mu is held, but not during system calls.
func (c *Conn) sendWaiting(b *wire.Batch) error {
	s := &c.send
	w := s.w
	n, took := 0, time.Duration(0)
	for {
		s.putFront(b)
		left := b.Len()
		c.mu.Unlock()
		begun := time.Now()
		outcome, err := w.SendUntil(b, &s.urgent)
		took += time.Since(begun)
		c.mu.Lock()
		n += left - b.Len()
		if outcome == wire.Sent {
			c.pace(n, took)
			return err
		}
		c.partSent()
	}
}

// pace adapts what may wait here, and in the system, to the time that the writer goroutine took to send n bytes. c.mu is held.
func (c *Conn) pace(n int, took time.Duration) {
	s := &c.send
	blocked, unsent := pacing(s.blocked, s.unsent, n, took)
	s.blocked = blocked
	s.slow = s.slow || took >= slowBatch
	if unsent != unlimited || !s.slow && s.sent >= fastAfter && c.inflow.near() {
		c.limitUnsent(unsent)
	}
	s.admit(int(blocked))
}

// unlimited is sender.unsent of a peer that is near and fast.
const unlimited = math.MaxInt32

// pacing returns what sender.blocked and sender.unsent become when n bytes have taken that long to send. Both are powers of two, so that
// they change seldom.
func pacing(blocked, unsent int32, n int, took time.Duration) (newBlocked, newUnsent int32) {
	switch {
	case took >= slowBatch:
		fits := int64(n) * int64(blockedTime) / int64(took)
		for blocked = blockedLimit; blocked > minBlocked && int64(blocked) > fits; blocked /= 2 {
		}
		return blocked, min(blocked, unsentLimit)
	case unsent == unlimited:
	case blocked < blockedLimit && n >= int(blocked)/2:
		return 2 * blocked, min(2*blocked, unsentLimit)
	case took < fastBatch && n >= unsentLimit/2:
		return blocked, unlimited
	}
	return blocked, unsent
}

// limitUnsent has the system hold at most n bytes that it has not sent. c.mu is held.
func (c *Conn) limitUnsent(n int32) {
	if c.send.unsent != n {
		c.send.unsent = n
		wire.LimitUnsent(c.nc, int(n))
	}
}

// countSent has the system hold little unsent once the connection has sent as much as that: until a batch has been sent quickly, the peer may
// be slow. Connections that send less make no system call for it. c.mu is held.
func (c *Conn) countSent(n int) {
	s := &c.send
	if s.sent >= fastAfter {
		return
	}
	if s.sent += uint32(n); s.sent >= unsentLimit && s.unsent == 0 {
		c.limitUnsent(unsentLimit)
	}
}

// awaitMore waits for more to send, on connections on which nothing can be tried, and reports whether there is: a new writer goroutine
// would have to grow its stack for each batch. It waits until the connection is idle. c.mu is held, but not throughout.
func (c *Conn) awaitMore() bool {
	s := &c.send
	if c.lifetime.reached(closing) || s.w.CanTry() {
		return false
	}
	if s.wake == nil {
		s.wake = make(chan bool, 1)
	}
	s.parked = true
	wake := s.wake
	c.mu.Unlock()
	more := <-wake
	c.mu.Lock()
	return more
}

// dropWriter ends the writer goroutine if it waits. c.mu is held.
func (c *Conn) dropWriter() {
	s := &c.send
	if s.parked {
		s.parked = false
		s.wake <- false
	}
	s.wake = nil
}

// pending reports whether there is anything to send. c.mu is held.
func (c *Conn) pending() bool {
	return c.queued() > 0 || !c.ready.empty() && c.peer.conn > 0 && !c.lifetime.reached(closing)
}

// nextBatch takes what is to be sent next; nil: nothing. c.mu is held, but not throughout.
func (c *Conn) nextBatch() *wire.Batch {
	s := &c.send
	if c.lifetime.reached(shut) {
		c.dropQueued()
		return nil
	}
	c.fill()
	if c.lifetime.reached(shut) { // while a Source was asked
		c.dropQueued()
		return nil
	}
	if c.queued() == 0 {
		return nil
	}
	b := s.out
	s.putFront(b)
	s.out, s.spare = s.spare, nil
	s.number++
	s.carries, s.content = s.content, false
	c.countSent(b.Len())
	c.limiter.replies = 0
	c.wakeOpeners() // there is room again
	return b
}

// partSent notes that the peer gets HEADERS or DATA, if what has just been sent has any. gRPC's clients send a PING with the DATA that
// comes, one at a time, and the acknowledgement leaves between the frames of a batch, so there may be several to one Write. c.mu is held.
func (c *Conn) partSent() {
	if c.send.carries {
		c.limiter.wrote()
	}
}

// wrote notes that HEADERS or DATA are queued. c.mu is held.
func (c *Conn) wrote() {
	c.send.content = true
	c.limiter.wrote()
}

// batchDone takes a batch back after sending. c.mu is held.
func (c *Conn) batchDone(b *wire.Batch, err error) {
	c.send.spare = b
	c.send.batches++
	c.partSent()
	if err != nil {
		c.writeFailed(err)
	}
}

// writeFailed ends the connection because nothing can be sent any more. Run reads on
// for a bounded time: the peer may have said why, and what it has sent before still
// counts. c.mu is held.
func (c *Conn) writeFailed(err error) {
	c.send.failed = true
	c.become(writeFailed, err)
	c.dropQueued()
	if !c.lifetime.isLimited() {
		c.aside(c.nc.Close)
	}
}

// stopWriting is called when nothing is left to send. c.mu is held.
func (c *Conn) stopWriting() {
	s := &c.send
	s.state = notWriting
	if s.w.CanTry() {
		s.admit(batchLimit)
	}
	if s.quiet != nil {
		close(s.quiet)
		s.quiet = nil
	}
	c.closeWriting()
}

// writeCloser is a connection whose writing half can be closed.
type writeCloser interface{ CloseWrite() error }

// closeWriting closes the writing half of a connection that is closing, now that
// everything is sent. c.mu is held.
func (c *Conn) closeWriting() {
	if !c.become(allSent, nil) {
		return
	}
	h, canShut := c.nc.(writeCloser)
	switch {
	case canShut:
		// Not Close: the peer's last frames would reset what it has yet to read.
		c.aside(func() error { return closeWrite(c.nc, h) })
	case c.side == server && !c.lifetime.cut() && c.lifetime.isLimited():
		// For the same reason: a client that has read the GOAWAY closes the connection, or the deadline ends it.
	default:
		c.aside(c.nc.Close)
	}
}

// closeWrite closes the writing half of nc, and then that of the connection below it: close_notify alone does not make
// every peer close (Netty's SslHandler waits for FIN).
func closeWrite(nc net.Conn, h writeCloser) error {
	err := h.CloseWrite()
	if upper, ok := nc.(interface{ NetConn() net.Conn }); ok {
		if below, ok := upper.NetConn().(writeCloser); ok {
			below.CloseWrite()
		}
	}
	return err
}

// awaitSent waits until the GOAWAY of a connection that is aborted is sent, at most
// abortTimeout. Without it discardInput could reach its bound, and the connection be
// closed, before a writer goroutine has sent the GOAWAY. Nothing is read meanwhile.
func (c *Conn) awaitSent() {
	c.mu.Lock()
	s := &c.send
	if s.state != sending || !c.lifetime.cut() {
		c.mu.Unlock()
		return
	}
	if s.quiet == nil {
		s.quiet = make(chan struct{})
	}
	quiet := s.quiet
	c.mu.Unlock()
	endsWithin(quiet)
}

// awaitQuiet waits until no goroutine sends. c.mu is held, but not throughout.
func (c *Conn) awaitQuiet() {
	for c.send.state == sending {
		if c.send.quiet == nil {
			c.send.quiet = make(chan struct{})
		}
		quiet := c.send.quiet
		c.mu.Unlock()
		<-quiet
		c.mu.Lock()
	}
}

// aside calls what ends a connection. A plain socket does so at once; others (TLS
// sends an alert) may wait for the peer, which must not happen under c.mu. c.mu is held.
func (c *Conn) aside(end func() error) {
	c.stopPolling()
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		end()
	default:
		go end()
	}
}

// outgoing returns the batch that gathers what is to be sent. c.mu is held.
func (c *Conn) outgoing() *wire.Batch {
	s := &c.send
	if s.out == nil {
		s.w = wire.NewWriter(c.nc, c.cfg.Pool)
		s.out, s.spare = s.w.NewBatch(), s.w.NewBatch()
		s.run = c.writer
	}
	return s.out
}

// aheadOf returns the batch for frames that need not follow what is queued. c.mu is held.
func (c *Conn) aheadOf() *wire.Batch {
	s := &c.send
	if s.queues() {
		return c.outgoing()
	}
	if s.front == nil {
		s.front = s.w.NewBatch()
	}
	s.urgent.Store(true)
	return s.front
}

// queued returns how many bytes wait to be sent, apart from the streams' DATA that
// waits. c.mu is held.
func (c *Conn) queued() int {
	s, n := &c.send, 0
	if s.out != nil {
		n = s.out.Len()
	}
	if s.front != nil {
		n += s.front.Len()
	}
	return n
}

// dropQueued drops them. c.mu is held.
func (c *Conn) dropQueued() {
	s := &c.send
	if s.out != nil {
		s.out.Clear()
	}
	if s.front != nil {
		s.front.Clear()
	}
}
