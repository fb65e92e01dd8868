package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// HedgingPolicy says which unary calls are sent several times without waiting for a failure,
// and when (gRFC A6). The call commits to the first attempt that the server answers with
// a header (over Connect and gRPC-Web, where the header says nothing of the status, with a message), and to the first whose
// status is not among NonFatalStatusCodes, OK included; the other attempts are then reset with CANCEL. When every attempt
// has failed, the call ends with the status of the last. An attempt that the balancer drops ends the call with that status.
// A method needs to be safe to run more than once.
//
// A request longer than the limit of grpc.MaxRetryRPCBufferSize (256 KiB unless set) is sent once, and so is each while the
// retry throttle is closed. The balancer picks a connection for each attempt, and statistics handlers see each. A call returns
// when its other attempts have ended too: none uses memory, a connection's stream or a credential afterwards. Streams behave as
// without a policy. A method has a retry or a hedging policy, not both.
type HedgingPolicy struct {
	// MaxAttempts is the most attempts of a call, the first included; at least 2.
	// WithMaxCallAttempts bounds it.
	MaxAttempts int
	// HedgingDelay is the time between attempts. An attempt that fails with one of
	// NonFatalStatusCodes makes the next follow at once, or when the server's
	// grpc-retry-pushback-ms says so; a negative one means that none follows. 0 sends
	// all attempts at once.
	HedgingDelay time.Duration
	// NonFatalStatusCodes are those after which other attempts continue. Any other ends the call.
	NonFatalStatusCodes []codes.Code
}

func (p *HedgingPolicy) check() error {
	if p.MaxAttempts < 2 || p.HedgingDelay < 0 {
		return fmt.Errorf("hedging policy %+v is incomplete or out of range", *p)
	}
	return nil
}

// WithHedgingPolicy hedges unary calls of every method for which the service config has neither a retry nor a
// hedging policy. NewClient fails if WithRetryPolicy is set too. WithDisableRetry turns hedging off.
func WithHedgingPolicy(p HedgingPolicy) DialOption {
	return dialOption(func(o *dialOptions) { o.hedging = &p })
}

var errBothPolicies = errors.New("a retry and a hedging policy")

// checkPolicies refuses policies that contradict each other or are out of range. nil is none.
func checkPolicies(retry *RetryPolicy, hedging *HedgingPolicy) error {
	switch {
	case retry != nil && hedging != nil:
		return errBothPolicies
	case retry != nil:
		return retry.check()
	case hedging != nil:
		return hedging.check()
	}
	return nil
}

// afterHedge is the effect of an ended attempt on its call.
type afterHedge uint8

const (
	commitToIt afterHedge = iota // its status becomes the call's
	noMore                       // no further attempt is begun; running ones continue
	nextAfter                    // the next attempt follows after a delay
)

// judge decides on an attempt that ended with code. trailer is the server's. The duration is the delay of
// nextAfter.
func (p *HedgingPolicy) judge(t *throttle, code codes.Code, trailer metadata.MD) (afterHedge, time.Duration) {
	asks, wait := pushbackOf(trailer)
	fatal := !slices.Contains(p.NonFatalStatusCodes, code)
	throttled := (!fatal || asks == pushedAway) && t.failed()
	switch {
	case fatal:
		return commitToIt, 0
	case throttled || asks == pushedAway:
		return noMore, 0
	}
	return nextAfter, wait
}

// hedgedCall is a unary call with a hedging policy. Each attempt has a goroutine until the server has answered it or it has
// failed. The caller's goroutine decides what follows, and receives the response of the attempt to which the call commits.
//
// Memory: call.encoded owns the request until all attempts have ended; each attempt has a reference of its own.
type hedgedCall struct {
	*call
	req     any
	policy  HedgingPolicy
	begun   []*hedge
	live    int         // attempts that have not reported
	last    *hedge      // that has failed
	frozen  bool        // no further attempt is begun
	timer   *time.Timer // of the next attempt; nil: none is due
	winner  atomic.Pointer[hedge]
	reports chan *hedge // attempts that were answered or have failed; has room for all
	wg      sync.WaitGroup
}

// hedge is one attempt. It belongs to its goroutine until that has reported it.
type hedge struct {
	call   // a copy, with a context, a pick and a reference to the request of its own
	a      unaryAttempt
	cancel context.CancelFunc
	err    error // nil: it was answered first, and the call has committed to it
}

var errNotCommitted = status.Error(codes.Canceled, "rpc: another attempt of the hedged call was answered")

// hedged makes the attempts of a unary call with a hedging policy. It takes a copy of the call, which then is on the heap: other calls are not.
func (c call) hedged(req, reply any) error {
	h := &hedgedCall{call: &c, req: req, policy: *c.retry.hedging}
	h.policy.MaxAttempts = min(h.policy.MaxAttempts, max(1, c.retry.maxAttempts))
	h.reports = make(chan *hedge, h.policy.MaxAttempts)
	w, err := h.run(reply)
	var last outcome
	if w != nil {
		last = w.a
	}
	c.report(last, err)
	return err
}

// run returns the attempt with the call's result, nil if none was begun, and the result. All attempts have ended then.
func (h *hedgedCall) run(reply any) (*hedge, error) {
	over := false
	defer func() {
		h.stop()
		h.dropEncoded(h.req)
		if !over { // a function of the application's has panicked or ended the goroutine
			h.end(errExited)
		}
	}()
	m, _, err := h.encodeOnce(h.req)
	if err != nil {
		over = true
		return nil, err
	}
	if m.Free(); h.encoded.m.Len() > h.info.replay {
		h.policy.MaxAttempts = 1
	}
	h.next()
	w, err := h.decide()
	for _, other := range h.begun {
		if other != w {
			other.cancel()
		}
	}
	if err == nil {
		err = w.a.finishUnary(&w.call, reply)
	}
	over = true
	return w, err
}

// stop ends the attempts, and returns when they have ended.
func (h *hedgedCall) stop() {
	h.stopTimer()
	for _, e := range h.begun {
		e.cancel()
	}
	h.wg.Wait()
}

// decide returns the attempt to which the call commits. Without an error it was answered; otherwise the call has the error.
func (h *hedgedCall) decide() (*hedge, error) {
	defer h.cc.channel.CallWaits()()
	done := h.ctx.Done()
	for {
		var due <-chan time.Time
		if h.timer != nil {
			due = h.timer.C
		}
		var end *hedge
		select {
		case e := <-h.reports:
			if e.err == nil {
				return e, nil
			}
			end = h.failed(e)
		case <-due:
			end = h.due()
		case <-done:
			done = nil
			if last := h.begun[len(h.begun)-1]; h.winner.CompareAndSwap(nil, last) {
				return last, status.FromContextError(h.ctx.Err()).Err()
			}
		}
		if end != nil && h.winner.CompareAndSwap(nil, end) { // otherwise one that was answered is about to report
			return end, end.err
		}
	}
}

// next begins an attempt and sets the timer of the one after it, or begins all if there is no delay between them.
func (h *hedgedCall) next() {
	for {
		h.launch()
		if h.policy.HedgingDelay > 0 {
			h.after(h.policy.HedgingDelay)
			return
		}
		if !h.mayLaunch() {
			return
		}
	}
}

// mayLaunch reports whether the policy permits another attempt.
func (h *hedgedCall) mayLaunch() bool {
	if h.full() {
		return false
	}
	h.frozen = h.retry.throttle.closed()
	return !h.frozen
}

func (h *hedgedCall) full() bool { return h.frozen || len(h.begun) >= h.policy.MaxAttempts }

// after sets the timer of the next attempt.
func (h *hedgedCall) after(d time.Duration) {
	h.stopTimer()
	if !h.full() {
		h.timer = time.NewTimer(d)
	}
}

func (h *hedgedCall) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

// due is called when the timer fires. It returns the attempt with which the call ends, if it does.
func (h *hedgedCall) due() *hedge {
	h.timer = nil
	switch {
	case h.mayLaunch():
		h.next()
	case h.live == 0:
		return h.last
	}
	return nil
}

// failed decides what follows after an attempt that has failed. It returns the attempt with which the call ends, if it does.
func (h *hedgedCall) failed(e *hedge) *hedge {
	h.live--
	h.last = e
	switch {
	case h.winner.Load() != nil || h.ctx.Err() != nil: // decide finds that out
		return nil
	case e.retry.dropped:
		return e
	}
	v, wait := h.policy.judge(h.retry.throttle, status.Code(e.err), e.a.trailerMD())
	if v == commitToIt {
		return e
	}
	h.frozen = h.frozen || v == noMore
	switch {
	case v == nextAfter && wait > 0 && !h.full():
		h.after(wait)
	case h.mayLaunch():
		h.next()
	case h.live == 0:
		return e
	}
	return nil
}

// launch begins an attempt.
func (h *hedgedCall) launch() {
	e := &hedge{call: *h.call}
	e.ctx, e.cancel = context.WithCancel(h.ctx)
	e.tagged = e.ctx
	e.retry = retrying{attempts: len(h.begun)} // becomes grpc-previous-rpc-attempts
	e.encoded = &encoded{h.encoded.m.Ref(), h.encoded.info}
	h.begun = append(h.begun, e)
	h.live++
	h.wg.Add(1)
	go func() {
		defer h.wg.Done()
		e.err = errExited // unless a function of the application's returns
		defer func() {
			e.dropEncoded(h.req)
			h.reports <- e
		}()
		e.err = h.try(e)
	}()
}

// try makes an attempt, and makes it again while the server has not seen it. It returns nil when the attempt was answered and the call has
// committed to it. Otherwise the attempt has ended.
func (h *hedgedCall) try(e *hedge) error {
	for {
		e.retry.count()
		e.a = e.newAttempt()
		seen, err := e.a.openUnary(&e.call, h.req)
		if err == nil {
			answered := e.a.waitAnswer(e.ctx.Done())
			if answered && h.winner.CompareAndSwap(nil, e) {
				return nil
			}
			switch {
			case h.ctx.Err() != nil:
				err = status.FromContextError(h.ctx.Err()).Err()
			case answered || e.ctx.Err() != nil:
				err = errNotCommitted
			default:
				seen, err = e.a.unanswered(&e.call)
			}
			e.a.closeUnary(&e.call, err)
		}
		if e.ctx.Err() != nil || !e.tryAgain(err, seen) {
			return err
		}
	}
}

// newAttempt returns one over the carrier of the client's protocol.
func (e *hedge) newAttempt() unaryAttempt {
	if w := e.cc.web; w != nil {
		return w.exchange(&e.call, kindUnary)
	}
	return new(grpcAttempt)
}

// tryAgain reports whether an attempt that the server has not seen is made again, and waits for its time.
func (e *hedge) tryAgain(err error, seen progress) bool {
	if seen == unreached && e.info.waitForReady {
		again, _ := e.awaitServer(err)
		return again
	}
	return e.retry.judge(status.Code(err), seen, e.a.trailerMD()).again
}
