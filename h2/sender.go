package h2

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/wire"
)

// sender owns writing. Frames are encoded into a batch by the goroutine that makes
// them (put.go). DATA that must wait, for a window or because the batch is full,
// stays with its stream (waiting.go). flush makes both be sent: by its caller as far as
// the socket takes it without waiting, otherwise by a writer goroutine, which exists
// while bytes wait, and where nothing can be tried until the connection is idle or
// ends (park). So no caller ever waits for the network; a Write whose DATA is not in a
// batch yet waits for that, on its context as well.
//
// One batch is written at a time: state is sending from beginSending to sentAll, and the
// goroutine that sends, a caller's or the writer goroutine, is the only one that takes a
// batch and calls TrySend or SendUntil. Meanwhile the batch belongs to it.
//
// All else is guarded by Conn.mu, also w where it makes batches or says whether it can try.
type sender struct {
	c      *Conn
	w      *wire.Writer // nil, like the batches, until needed and while the connection rests
	out    *wire.Batch  // gathers what is to be sent
	spare  *wire.Batch  // the other batch: empty, or nil while it is under way
	front  *wire.Batch  // frames that are put into the batch under way, or before out; nil: there have not been any
	urgent atomic.Bool  // front is not empty
	state  writing

	number      uint32 // of out, from 1 on
	maxUnsent   int32  // most bytes that the system may hold unsent; 0: not decided; unlimited: the peer is near and fast
	fillBlocked int32  // fillTo while the writer goroutine sends: blockedLimit, or less for a slow peer
	sent        uint32 // bytes, counted up to fastAfter
	quick       int8   // -quickAgain to 1: set to the least by a batch that took slowBatch, one more for each that left quickly; unlimited needs 1
	proximity   proximity
	parked      bool // a writer goroutine waits for more to send

	begin   *wire.Batch // what the writer goroutine begins with; nil: what nextBatch says
	run     func()      // writer, bound once
	replies func()      // sendReplies, bound once
	wake    chan bool   // true: it goes on; false: it ends

	fillTo int // bytes of a batch before DATA waits; admit sets it

	content bool          // what is queued has HEADERS or DATA
	carries bool          // what is being sent has
	failed  bool          // a write has
	batches uint64        // that were sent
	stopped chan struct{} // closed when sending ends; nil: no goroutine waits for that
}

// writing is who writes.
type writing uint8

const (
	notWriting writing = iota
	gathering          // a caller in flush lets others queue frames
	replying           // a goroutine that gatherReplies has started is about to flush
	sending            // a caller in flush, or the writer goroutine
	writings
)

func (s *sender) init(c *Conn) {
	s.c = c
	s.fillTo, s.fillBlocked, s.number = batchLimit, blockedLimit, 1
}

// inactive reports whether no goroutine sends, or is about to.
func (s *sender) inactive() bool { return s.state == notWriting }

// sends reports whether a goroutine sends.
func (s *sender) sends() bool { return s.state == sending }

// admit has a batch take n bytes before DATA waits, or fastLimit where the peer is near and fast.
func (s *sender) admit(n int) {
	if s.nearAndFast() {
		n = fastLimit
	}
	s.fillTo = n
}

// turn is how many bytes of DATA a stream sends before the next one, where only long Writes wait.
func (s *sender) turn() int {
	if s.nearAndFast() {
		return longTurn
	}
	return turnBytes
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

// sentBatches is how many batches have been sent.
func (s *sender) sentBatches() uint64 { return s.batches }

// current is the number of the batch that gathers what is to be sent.
func (s *sender) current() uint32 { return s.number }

// after says where a frame is put that must not come before those of a batch: ahead of others if that batch has been sent.
func (s *sender) after(batch uint32) order {
	if batch == s.number || s.spare == nil && batch == s.number-1 {
		return inTurn
	}
	return ahead
}

// onlyInTurn reports whether nothing can be put ahead of what is queued: none is being sent, or it begins with what the connection begins with.
func (s *sender) onlyInTurn() bool { return s.state != sending || s.batches == 0 }

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

// trim lets go what a connection that becomes idle does not need.
func (s *sender) trim() {
	s.w, s.out, s.spare, s.front, s.run, s.replies = nil, nil, nil, nil, nil, nil
}

// flushMode says how a flush sends, and what it may be left to.
type flushMode uint8

const (
	flushWithRun  flushMode = iota // is left to Run while it handles frames: it flushes when it has
	flushInTurn                    // is left to the goroutine that gathers
	flushTogether                  // gathers: lets other callers queue frames first, so that they leave in one write
	flushPromptly                  // what other callers' frames must not delay
	flushModes
)

// flushes says who transmits: a caller that flushes, or (false) the goroutine that sends or gathers already, which looks again. flush has two
// exceptions: flushWithRun transmits nothing while Run handles frames, and with goodBatch queued replying counts as notWriting.
var flushes = [flushModes][writings]bool{
	flushWithRun:  {notWriting: true},
	flushInTurn:   {notWriting: true},
	flushTogether: {notWriting: true},
	flushPromptly: {notWriting: true, gathering: true, replying: true},
}

// flush sends what the connection takes without waiting, and starts the writer goroutine for the rest. Conn.mu is held, and given up while
// other callers queue frames (flushTogether), a Source is asked and during system calls: what is queued, the streams' windows and states, and
// whether the connection has failed may have changed when flush returns. It keeps none of them: takeBatch reads them each time.
func (s *sender) flush(m flushMode) {
	state := s.state
	if state == replying && s.queued() >= goodBatch {
		state = notWriting
	}
	if !flushes[m][state] || m == flushWithRun && s.c.handling {
		return
	}
	if m == flushTogether && (s.w == nil || s.w.CanTry()) { // elsewhere the writer goroutine gathers
		s.state = gathering
		s.letOthersQueue()
		if s.state == sending {
			return // since a flushPromptly
		}
		s.state = notWriting
	}
	if !s.beginSending() {
		return
	}
	for batches, bytes := 0, 0; callerSends(batches, bytes); batches++ {
		b := s.nextBatch()
		if b == nil {
			s.sentAll()
			return
		}
		n := b.Len()
		bytes += n
		s.c.mu.Unlock()
		outcome, took, err := s.try(b)
		s.c.mu.Lock()
		if outcome == wire.Unsent {
			s.begin = b
			break
		}
		if took < fastBatch { // longer only because the goroutine waited for a processor
			s.pace(n-unsentLimit, took) // as many bytes the system may have taken without sending them
			s.admit(batchLimit)
		}
		s.batchDone(b, err)
	}
	s.startWriter()
}

// try is TrySend of a batch, and says how long it took where that says something of the peer: the batch is long.
func (s *sender) try(b *wire.Batch) (outcome wire.Outcome, took time.Duration, err error) {
	if b.Len() < unsentLimit+unsentLimit/2 {
		outcome, err = s.w.TrySend(b)
		return outcome, fastBatch, err
	}
	begun := now()
	outcome, err = s.w.TrySend(b)
	return outcome, now().since(begun), err
}

// beginSending makes the caller the one who sends, and reports whether it may try. Otherwise there is nothing to send, or
// the writer goroutine sends it. Conn.mu is held.
func (s *sender) beginSending() bool {
	if s.c.lifetime.reached(shut) {
		s.dropQueued()
	}
	if !s.pending() {
		s.c.closeWriting()
		return false
	}
	s.state = sending
	s.outgoing() // with DATA alone there may be no writer yet
	if !s.w.CanTry() {
		s.startWriter()
		return false
	}
	return true
}

// callerSends reports whether a caller that has sent that many batches, with that many
// bytes together, sends the next one, too.
func callerSends(batches, bytes int) bool {
	return batches < callerBatches || batches < shortBatches && bytes < batchLimit
}

// startWriter has a writer goroutine send what waits. Conn.mu is held.
func (s *sender) startWriter() {
	s.admit(int(s.fillBlocked))
	if s.parked {
		s.parked = false
		s.wake <- true
		return
	}
	go s.run()
}

// writer is the writer goroutine: it sends what waits, and what is put ahead meanwhile, waiting as long as it takes. It
// holds Conn.mu between the system calls.
func (s *sender) writer() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for w := s.w; ; {
		b := s.begin
		s.begin = nil
		if b == nil && s.together() == flushTogether {
			s.letOthersQueue()
		}
		if b == nil {
			b = s.nextBatch()
		}
		for n, took := 0, time.Duration(0); b != nil; {
			s.putFront(b)
			length := b.Len()
			s.c.mu.Unlock()
			begun := time.Now()
			outcome, err := w.SendUntil(b, &s.urgent)
			took += time.Since(begun)
			s.c.mu.Lock()
			n += length - b.Len()
			if outcome == wire.Unsent {
				s.partSent()
				continue
			}
			s.pace(n, took)
			s.admit(int(s.fillBlocked))
			s.batchDone(b, err)
			b, n, took = s.nextBatch(), 0, 0
		}
		s.sentAll()
		wake := s.park()
		if wake == nil {
			return
		}
		s.c.mu.Unlock()
		more := <-wake
		s.c.mu.Lock()
		if !more {
			return
		}
	}
}

// pace adapts what may wait here, and in the system, to the time that it took to send n bytes. Conn.mu is held.
func (s *sender) pace(n int, took time.Duration) {
	fill, most := pacing(s.fillBlocked, s.maxUnsent, n, took)
	s.fillBlocked = fill
	switch {
	case took >= slowBatch:
		s.quick = -quickAgain
	case most == unlimited && !s.nearAndFast():
		s.quick = min(s.quick+1, 1)
	}
	if most != unlimited || s.quick == 1 && s.sent >= fastAfter && s.isNear() {
		s.limitUnsent(most)
	}
}

// proximity is whether a peer is near: whether a round trip takes steadyRTT at most.
type proximity uint8

const (
	unasked proximity = iota // the system has not been asked
	near
	far
)

// isNear reports whether the peer is near. Where its acknowledgements of SETTINGS were late, its program may have been busy: then the system's
// shortest round trip counts, which is asked for once. Conn.mu is held.
func (s *sender) isNear() bool {
	if s.c.inflow.near() {
		return true
	}
	if s.proximity == unasked {
		s.proximity = far
		if rtt, ok := shortestRTT(s.c.nc); ok && rtt <= steadyRTT {
			s.proximity = near
		}
	}
	return s.proximity == near
}

// unlimited is sender.maxUnsent of a peer that is near and fast.
const unlimited = math.MaxInt32

// nearAndFast reports whether the peer is known to be both.
func (s *sender) nearAndFast() bool { return s.maxUnsent == unlimited }

// pacing returns what sender.fillBlocked and sender.maxUnsent become when n bytes have taken that long to send. Both are powers of two, so
// that they change seldom.
func pacing(fill, maxUnsent int32, n int, took time.Duration) (newFill, newMaxUnsent int32) {
	switch {
	case took >= slowBatch:
		fits := int64(n) * int64(blockedTime) / int64(took)
		for fill = blockedLimit; fill > minBlocked && int64(fill) > fits; fill /= 2 {
		}
		return fill, min(fill, unsentLimit)
	case maxUnsent == unlimited:
	case fill < blockedLimit && n >= int(fill)/2:
		return 2 * fill, min(2*fill, unsentLimit)
	case took < fastBatch && n >= unsentLimit/2:
		return fill, unlimited
	}
	return fill, maxUnsent
}

// limitUnsent has the system hold at most n bytes that it has not sent. Conn.mu is held.
func (s *sender) limitUnsent(n int32) {
	if s.maxUnsent != n {
		s.maxUnsent = n
		wire.LimitUnsent(s.c.nc, int(n))
	}
}

// countSent has the system hold little unsent once the connection has sent as much as that: until a batch has been sent quickly, the peer may
// be slow. Connections that send less make no system call for it. Conn.mu is held.
func (s *sender) countSent(n int) {
	if s.sent >= fastAfter {
		return
	}
	if s.sent += uint32(n); s.sent >= unsentLimit && s.maxUnsent == 0 {
		s.limitUnsent(unsentLimit)
	}
}

// park returns what the writer goroutine, which has nothing to send, waits for: true, and it goes on, or false; nil: it ends at once. It waits on
// connections on which nothing can be tried, until they rest: a new writer goroutine would have to grow its stack for each batch. Conn.mu is held.
func (s *sender) park() <-chan bool {
	if s.c.lifetime.reached(closing) || s.w.CanTry() || s.c.rest != notResting {
		return nil
	}
	if s.wake == nil {
		s.wake = make(chan bool, 1)
	}
	s.parked = true
	return s.wake
}

// endParked ends the writer goroutine if it is parked. Conn.mu is held.
func (s *sender) endParked() {
	if s.parked {
		s.parked = false
		s.wake <- false
	}
	s.wake = nil
}

// pending reports whether there is anything to send. Conn.mu is held.
func (s *sender) pending() bool {
	return s.queued() > 0 || !s.c.ready.empty() && s.c.peer.conn > 0 && !s.c.lifetime.reached(closing)
}

// nextBatch takes what is to be sent next; nil: nothing. Conn.mu is held, and given up while a Source is asked: it is begun again then, except
// for the room that many short Sources share.
func (s *sender) nextBatch() *wire.Batch {
	for room := max(s.room(), minFill); ; {
		b, d := s.takeBatch(room)
		if d.w == nil {
			return b
		}
		d.begin()
		s.c.mu.Unlock()
		data, err := d.ask()
		s.c.mu.Lock()
		s.c.supplied(d, data, err)
		room = d.room
	}
}

// takeBatch is nextBatch as far as no Source must be asked before. room is how much DATA of streams that wait is queued at most. Conn.mu is held.
func (s *sender) takeBatch(room int) (*wire.Batch, demand) {
	if s.c.lifetime.reached(shut) {
		s.dropQueued()
		return nil, demand{}
	}
	if d := s.c.fill(room); d.w != nil {
		return nil, d
	}
	if s.queued() == 0 {
		return nil, demand{}
	}
	b := s.out
	s.putFront(b)
	s.out, s.spare = s.spare, nil
	s.number++
	s.carries, s.content = s.content, false
	s.countSent(b.Len())
	s.c.limiter.replies = 0
	s.c.wakeOpeners() // there is room again
	return b, demand{}
}

// partSent notes that the peer gets HEADERS or DATA, if what has just been sent has any. gRPC's clients send a PING with the DATA that
// comes, one at a time, and the acknowledgement leaves between the frames of a batch, so there may be several to one Write. Conn.mu is held.
func (s *sender) partSent() {
	if s.carries {
		s.c.limiter.noteSent()
	}
}

// noteContent notes that HEADERS or DATA are queued. Conn.mu is held.
func (s *sender) noteContent() {
	s.content = true
	s.c.limiter.noteSent()
}

// batchDone takes a batch back after sending. Conn.mu is held.
func (s *sender) batchDone(b *wire.Batch, err error) {
	s.spare = b
	s.batches++
	s.partSent()
	if err != nil {
		s.writeFailed(err)
	}
}

// writeFailed ends the connection because nothing can be sent any more. Run reads on
// for a bounded time: the peer may have said why, and what it has sent before still
// counts. Conn.mu is held.
func (s *sender) writeFailed(err error) {
	s.failed = true
	s.c.become(writeFailed, err)
	s.dropQueued()
	if !s.c.lifetime.takesDeadlines() {
		s.c.aside(s.c.nc.Close)
	}
}

// sentAll is called when nothing is left to send: the goroutine that sends stops, or is parked. Conn.mu is held.
func (s *sender) sentAll() {
	s.state = notWriting
	if s.w.CanTry() {
		s.admit(batchLimit)
	}
	if s.stopped != nil {
		close(s.stopped)
		s.stopped = nil
	}
	s.c.closeWriting()
}

// whenStopped returns what is closed when the goroutine that sends stops; nil: none sends. Conn.mu is held.
func (s *sender) whenStopped() <-chan struct{} {
	if s.state != sending {
		return nil
	}
	if s.stopped == nil {
		s.stopped = make(chan struct{})
	}
	return s.stopped
}

// outgoing returns the batch that gathers what is to be sent. Conn.mu is held.
func (s *sender) outgoing() *wire.Batch {
	if s.out == nil {
		s.w = wire.NewWriter(s.c.nc, s.c.cfg.Pool)
		s.out, s.spare = s.w.NewBatch(), s.w.NewBatch()
		s.run, s.replies = s.writer, s.sendReplies
	}
	return s.out
}

// frontBatch returns the batch for frames that need not follow what is queued. Conn.mu is held.
func (s *sender) frontBatch() *wire.Batch {
	if s.onlyInTurn() {
		return s.outgoing()
	}
	if s.front == nil {
		s.front = s.w.NewBatch()
	}
	s.urgent.Store(true)
	return s.front
}

// queued returns how many bytes wait to be sent, apart from the streams' DATA that
// waits. Conn.mu is held.
func (s *sender) queued() int {
	n := 0
	if s.out != nil {
		n = s.out.Len()
	}
	if s.front != nil {
		n += s.front.Len()
	}
	return n
}

// dropQueued drops them. Conn.mu is held.
func (s *sender) dropQueued() {
	if s.out != nil {
		s.out.Clear()
	}
	if s.front != nil {
		s.front.Clear()
	}
}
