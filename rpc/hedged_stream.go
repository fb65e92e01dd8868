package rpc

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// hedgedStream is a call with a hedging policy: several clientStreams that send the same messages, until the
// call commits to one of them.
//
// Memory: log owns each message until the call has committed and the attempt it has committed to has sent all
// of them. An attempt sends its own reference (rule 1), of which its clientStream takes ownership (rule 2).
// finish waits for the goroutines of all attempts.
type hedgedStream struct {
	call
	desc   *grpc.StreamDesc
	policy HedgingPolicy
	stop   func() bool // ends the watch on the context; nil without one
	once   sync.Once   // finish
	wg     sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // with mu: the log has grown or was closed, or the call has committed
	log     []logged
	logLen  int
	closed  bool // the caller has half-closed
	started bool
	over    bool // finish has begun
	result  error
	hedges  []*hedge
	live    int         // attempts that have not ended
	last    *hedge      // the attempt that ended last
	frozen  bool        // no further attempt is begun
	timer   *time.Timer // of the next attempt
	timerID int         // of the valid timer
	winner  *hedge      // what the call has committed to; set before decided is closed
	decided chan struct{}
}

// logged is a sent message.
type logged struct {
	msg  message.Message
	v    any // the caller's value, for statistics
	info payloadInfo
}

// hedge is one attempt.
type hedge struct {
	cs      *clientStream
	cancel  context.CancelFunc
	sent    int           // messages of the log that it has sent; guarded by hedgedStream.mu
	drained chan struct{} // closed when it sends nothing more of the log
	idle    bool          // drained is closed; guarded by hedgedStream.mu
}

var _ grpc.ClientStream = (*hedgedStream)(nil)

var unaryDesc grpc.StreamDesc // of calls that stream on neither side

// invokeHedged makes a unary call of c, which is initialised already.
func invokeHedged(c call, req, reply any) error {
	hs := newHedgedStream(c, &unaryDesc)
	if err := hs.SendMsg(req); err != nil {
		return err
	}
	return hs.RecvMsg(reply)
}

func newHedgedStream(c call, desc *grpc.StreamDesc) *hedgedStream {
	hs := &hedgedStream{call: c, desc: desc, policy: *c.retry.hedging, decided: make(chan struct{})}
	hs.policy.MaxAttempts = min(hs.policy.MaxAttempts, max(1, c.retry.maxAttempts))
	hs.changed.L = &hs.mu
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.ctx.Done() != nil {
		hs.stop = context.AfterFunc(hs.ctx, func() { hs.finish(status.FromContextError(hs.ctx.Err()).Err()) })
	}
	if desc.ClientStreams {
		hs.start()
	}
	return hs
}

// start begins the first attempt, and all of them if there is no delay between them. hs.mu is held.
func (hs *hedgedStream) start() {
	if hs.started || hs.over {
		return
	}
	hs.started = true
	hs.next()
}

// next begins an attempt and sets the timer of the one after it. hs.mu is held.
func (hs *hedgedStream) next() {
	for {
		hs.launch()
		if hs.policy.HedgingDelay > 0 {
			hs.after(hs.policy.HedgingDelay)
			return
		}
		if !hs.mayLaunch() {
			return
		}
	}
}

// mayLaunch reports whether the policy permits another attempt. hs.mu is held.
func (hs *hedgedStream) mayLaunch() bool {
	if hs.frozen || len(hs.hedges) >= hs.policy.MaxAttempts {
		return false
	}
	hs.frozen = hs.retry.throttle.closed()
	return !hs.frozen
}

// after sets the timer of the next attempt. hs.mu is held.
func (hs *hedgedStream) after(d time.Duration) {
	hs.stopTimer()
	if hs.frozen || len(hs.hedges) >= hs.policy.MaxAttempts {
		return
	}
	id := hs.timerID
	hs.timer = time.AfterFunc(d, func() { hs.due(id) })
}

// stopTimer cancels a timer that is set. hs.mu is held.
func (hs *hedgedStream) stopTimer() {
	hs.timerID++
	if hs.timer != nil {
		hs.timer.Stop()
		hs.timer = nil
	}
}

// due is called when the timer of an attempt fires.
func (hs *hedgedStream) due(id int) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	switch {
	case hs.winner != nil || hs.over || id != hs.timerID:
	case hs.mayLaunch():
		hs.next()
	case hs.live == 0:
		hs.commit(hs.last)
	}
}

// launch begins an attempt. hs.mu is held.
func (hs *hedgedStream) launch() {
	h := &hedge{cs: &clientStream{call: hs.call, desc: hs.desc, hedged: true}, drained: make(chan struct{})}
	c := &h.cs.call
	c.ctx, h.cancel = context.WithCancel(hs.ctx)
	c.tagged = c.ctx
	c.retry = retrying{attempts: len(hs.hedges)} // becomes grpc-previous-rpc-attempts
	hs.hedges = append(hs.hedges, h)
	hs.live++
	hs.wg.Add(1)
	go hs.run(h)
}

// run opens an attempt and sends it the caller's messages. It has its own goroutine.
func (hs *hedgedStream) run(h *hedge) {
	defer hs.wg.Done()
	defer hs.drain(h)
	if err := h.cs.start(); err != nil {
		hs.ended(h)
		return
	}
	goOn := true
	if !hs.desc.ClientStreams {
		// Header and request are sent together. Without a request, the caller receives first.
		if goOn = hs.sendNext(h, atOnceOnly); goOn && h.cs.current() == nil {
			_, _ = h.cs.started() // its error is the attempt's status
		}
	}
	hs.wg.Add(1)
	go hs.watch(h)
	for goOn {
		goOn = hs.sendNext(h, waitForMore)
	}
}

// waiting says whether sendNext waits.
type waiting uint8

const (
	waitForMore waiting = iota
	atOnceOnly
)

// sendNext sends an attempt the next message of the log, or its end. It returns false when the attempt needs
// nothing more of the log.
func (hs *hedgedStream) sendNext(h *hedge, w waiting) bool {
	hs.mu.Lock()
	for w == waitForMore && hs.winner == nil && h.sent == len(hs.log) && !hs.closed {
		hs.changed.Wait()
	}
	switch {
	case hs.winner != nil && hs.winner != h:
		hs.mu.Unlock()
		return false
	case h.sent < len(hs.log):
		e := hs.log[h.sent]
		e.msg = e.msg.Ref()
		h.sent++
		hs.mu.Unlock()
		return h.cs.sendEncoded(e.msg, e.v, e.info) == nil
	case hs.closed:
		hs.mu.Unlock()
		_ = h.cs.CloseSend() // always nil
		return false
	}
	hs.mu.Unlock()
	return w == atOnceOnly // otherwise the call has committed to h, which has all
}

// drain records that an attempt sends nothing more of the log.
func (hs *hedgedStream) drain(h *hedge) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.idle = true
	close(h.drained)
	if hs.winner == h {
		hs.freeLog()
	}
}

// freeLog frees the messages kept for attempts. hs.mu is held.
func (hs *hedgedStream) freeLog() {
	for i := range hs.log {
		hs.log[i].msg.Free()
	}
	hs.log = nil
}

// watch waits for the answer to an attempt. It has its own goroutine.
func (hs *hedgedStream) watch(h *hedge) {
	defer hs.wg.Done()
	if md, _ := h.cs.Header(); md == nil { // the error is always nil
		hs.ended(h)
		return
	}
	hs.mu.Lock()
	won := hs.winner == nil || hs.winner == h
	if won {
		hs.commit(h)
	}
	hs.mu.Unlock()
	if !won {
		h.release()
	}
}

// release gives back an attempt to which the call has not committed.
func (h *hedge) release() {
	h.cancel()
	h.cs.finish(errNotCommitted)
}

var errNotCommitted = status.Error(codes.Canceled, "rpc: another attempt of the hedged call was answered")

// outcome is the result of an attempt that ended without a header.
func (h *hedge) outcome() (metadata.MD, error) {
	if err := h.cs.outcome(); err != nil {
		if err == io.EOF {
			err = nil
		}
		return h.cs.Trailer(), err
	}
	a := h.cs.current()
	st, _ := a.outcome()
	return a.trailerMD(), h.cs.failure(st)
}

// ended decides what follows after an attempt that ended without a header.
func (hs *hedgedStream) ended(h *hedge) {
	trailer, err := h.outcome()
	if err != nil {
		h.cs.finish(err) // releases it; its status and trailer stay
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.winner != nil || hs.over {
		return
	}
	hs.live--
	hs.last = h
	if h.cs.retry.dropped {
		hs.commit(h)
		return
	}
	v, wait := hs.policy.judge(hs.retry.throttle, status.Code(err), trailer)
	if v == commitToIt {
		hs.commit(h)
		return
	}
	hs.frozen = hs.frozen || v == noMore
	switch {
	case v == nextAfter && wait > 0 && len(hs.hedges) < hs.policy.MaxAttempts && !hs.frozen:
		hs.after(wait)
	case hs.mayLaunch():
		hs.next()
	case hs.live == 0:
		hs.commit(h)
	}
}

// commit makes h the call's only attempt. hs.mu is held.
func (hs *hedgedStream) commit(h *hedge) {
	if hs.winner != nil {
		return
	}
	hs.winner = h
	hs.frozen = true
	hs.stopTimer()
	for _, other := range hs.hedges {
		if other != h {
			other.cancel()
		}
	}
	if h.idle {
		hs.freeLog()
	}
	close(hs.decided)
	hs.changed.Broadcast()
}

// furthest is the attempt that has sent most of the log; among equals the earliest.
func (hs *hedgedStream) furthest() *hedge {
	best := hs.hedges[0]
	for _, h := range hs.hedges {
		if !h.cs.isOver() && (best.cs.isOver() || h.sent > best.sent) {
			best = h
		}
	}
	return best
}

// decision waits until the call has committed; nil when it ended before it had an attempt.
func (hs *hedgedStream) decision() *hedge {
	hs.mu.Lock()
	hs.start()
	hs.mu.Unlock()
	defer hs.cc.idle.waiting()()
	<-hs.decided
	return hs.winner
}

// SendMsg sends one message. Until the call has committed it does not wait: the message is kept and sent to
// every attempt. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied. io.EOF means that the call has
// ended: RecvMsg returns the error.
func (hs *hedgedStream) SendMsg(v any) error {
	m, info, err := encodeMessage(hs.cc.opts.pool, hs.info.sender(v), hs.info.compressor, hs.info.maxSend, v)
	if err != nil {
		hs.finish(err)
		return err
	}
	hs.mu.Lock()
	if hs.closed {
		hs.mu.Unlock()
		m.Free()
		hs.finish(errClosed) // an incorrect use of the stream ends the call
		return errClosed
	}
	if hs.winner == nil && !hs.over {
		hs.keep(logged{m, v, info})
		hs.mu.Unlock()
		return nil
	}
	w := hs.winner
	hs.mu.Unlock()
	if w == nil {
		m.Free()
		if !hs.desc.ClientStreams {
			return nil // RecvMsg, which follows, returns the error, as with a clientStream
		}
		return io.EOF
	}
	<-w.drained
	err = w.cs.sendEncoded(m, v, info)
	if err == io.EOF && !hs.desc.ClientStreams {
		return nil
	}
	return err
}

// keep appends a message to the log, from which it is sent. If that is more than may be kept, the call
// commits. hs.mu is held.
func (hs *hedgedStream) keep(e logged) {
	hs.log = append(hs.log, e)
	hs.logLen += e.msg.Len()
	hs.closed = !hs.desc.ClientStreams
	full := hs.logLen > hs.info.replay
	switch {
	case !full:
		hs.start()
	case !hs.started:
		hs.started = true
		hs.launch()
	}
	if full {
		hs.commit(hs.furthest())
	}
	hs.changed.Broadcast()
}

// CloseSend ends the sequence of requests. It returns nil.
func (hs *hedgedStream) CloseSend() error {
	hs.mu.Lock()
	if hs.closed || hs.over {
		hs.mu.Unlock()
		return nil
	}
	hs.closed = true
	hs.start()
	hs.changed.Broadcast()
	w := hs.winner
	hs.mu.Unlock()
	if w == nil {
		return nil
	}
	<-w.drained
	return w.cs.CloseSend()
}

// Header waits for the response's header. It is nil, without an error, when the call ended without one;
// RecvMsg then returns the error.
func (hs *hedgedStream) Header() (metadata.MD, error) {
	if w := hs.decision(); w != nil {
		return w.cs.Header()
	}
	return nil, nil
}

// Trailer is the trailer once RecvMsg has returned an error.
func (hs *hedgedStream) Trailer() metadata.MD {
	if w := hs.committed(); w != nil {
		return w.cs.Trailer()
	}
	return nil
}

// Context is the call's context, with the peer in it once the call has committed.
func (hs *hedgedStream) Context() context.Context {
	if w := hs.committed(); w != nil {
		return w.cs.Context()
	}
	return hs.tagged
}

func (hs *hedgedStream) committed() *hedge {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.winner
}

// RecvMsg waits for one message. io.EOF means that the call succeeded; any other error is its status.
func (hs *hedgedStream) RecvMsg(v any) error {
	w := hs.decision()
	if w == nil {
		return hs.result
	}
	err := w.cs.RecvMsg(v)
	switch {
	case err == io.EOF:
		hs.finish(nil)
	case err != nil || !hs.desc.ServerStreams:
		hs.finish(err)
	}
	return err
}

// finish ends the call, unless it has ended, and returns when every attempt has freed its memory and the
// call's options have the result.
func (hs *hedgedStream) finish(err error) {
	hs.once.Do(func() {
		hs.mu.Lock()
		hs.over, hs.result, hs.frozen = true, err, true
		hs.stopTimer()
		if hs.winner == nil {
			if n := len(hs.hedges); n > 0 {
				hs.winner = hs.hedges[n-1]
			}
			close(hs.decided)
			hs.changed.Broadcast()
		}
		w, stop := hs.winner, hs.stop
		hs.mu.Unlock()
		if stop != nil {
			stop()
		}
		for _, h := range hs.hedges { // does not change any more
			if h != w {
				h.release()
				continue
			}
			h.cs.markOver(err)
			h.cancel() // it may wait for a connection
			h.cs.finish(err)
		}
		hs.wg.Wait()
		hs.mu.Lock()
		hs.freeLog()
		hs.mu.Unlock()
		var a *attempt
		if w != nil {
			a = w.cs.current()
		}
		hs.report(a, err)
	})
}
