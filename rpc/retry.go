package rpc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// RetryPolicy says which failed calls are tried again and when (gRFC A6). A
// call is tried again only while the server has not answered it.
type RetryPolicy struct {
	MaxAttempts          int           // the first included; at least 2
	InitialBackoff       time.Duration // above 0
	MaxBackoff           time.Duration // above 0
	BackoffMultiplier    float64       // above 0
	RetryableStatusCodes []codes.Code  // at least one
}

func (p *RetryPolicy) check() error {
	if p.MaxAttempts < 2 || p.InitialBackoff <= 0 || p.MaxBackoff <= 0 || p.BackoffMultiplier <= 0 || len(p.RetryableStatusCodes) == 0 {
		return fmt.Errorf("retry policy %+v is incomplete or out of range", *p)
	}
	return nil
}

// throttle stops retries while most calls fail (gRFC A6, "Throttling Retry Attempts and Hedged RPCs").
type throttle struct {
	mu     sync.Mutex
	tokens float64
	max    float64
	ratio  float64
}

func newThrottle(maxTokens, ratio float64) *throttle {
	return &throttle{tokens: maxTokens, max: maxTokens, ratio: ratio}
}

// failed counts a failure and reports whether retries are off.
func (t *throttle) failed() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = max(0, t.tokens-1)
	return t.tokens <= t.max/2
}

func (t *throttle) succeeded() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.tokens = min(t.max, t.tokens+t.ratio)
	t.mu.Unlock()
}

// retrying is the state of one call's attempts.
type retrying struct {
	policy      *RetryPolicy
	hedging     *HedgingPolicy // in place of policy; may be nil
	throttle    *throttle
	maxAttempts int
	attempts    int   // begun attempts, transparent ones not counted
	backoffs    int   // since the last push-back of the server
	unreached   int32 // attempts without a connection, after which the call waits for the server
	// notProcessedOnce: the one transparent attempt after "not processed" has been used.
	notProcessedOnce bool
	transparent      bool // the next attempt is transparent: it is not counted
	dropped          bool // the balancer has ended the call
}

// count is called before each attempt.
func (r *retrying) count() {
	if !r.transparent {
		r.attempts++
	}
}

// closed reports whether retries are off, without counting anything.
func (t *throttle) closed() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tokens <= t.max/2
}

// policyFor finds the retry or hedging policy of a call.
func (cc *ClientConn) policyFor(cfg *serviceConfig, mc *methodConfig) retrying {
	r := retrying{maxAttempts: cc.opts.maxAttempts}
	if cc.opts.noRetry {
		return r
	}
	r.policy, r.hedging, r.throttle = cc.opts.retry, cc.opts.hedging, cfg.throttle
	if mc != nil && (mc.retry != nil || mc.hedging != nil) {
		r.policy, r.hedging = mc.retry, mc.hedging
	}
	return r
}

// matters reports whether the end of a failed attempt has an effect: a policy may repeat it, or a throttle counts it.
func (r *retrying) matters() bool { return r.policy != nil || r.throttle != nil }

// pushback is what a server asks of a client whose attempt has failed.
type pushback uint8

const (
	notPushed  pushback = iota // nothing
	pushedBack                 // that the next attempt waits
	pushedAway                 // that there is no other attempt
)

// pushbackOf reads a server's trailer. What is not one number of 32 bits, as gRFC A6 has it, forbids another attempt like a negative one.
func pushbackOf(trailer metadata.MD) (pushback, time.Duration) {
	const key = "grpc-retry-pushback-ms"
	vs := trailer[key]
	if len(vs) == 0 {
		return notPushed, 0
	}
	ms, err := strconv.ParseInt(vs[0], 10, 32)
	if err != nil || ms < 0 || len(vs) > 1 {
		return pushedAway, 0
	}
	return pushedBack, time.Duration(ms) * time.Millisecond
}

// verdict says whether to try again after a failed attempt, and when.
type verdict struct {
	again bool
	wait  time.Duration
}

// judge decides on another attempt after one that failed with code. trailer is the server's.
func (r *retrying) judge(code codes.Code, seen progress, trailer metadata.MD) verdict {
	r.transparent = seen == notSent || seen == notProcessed && !r.notProcessedOnce
	r.notProcessedOnce = r.notProcessedOnce || seen == notProcessed
	if r.transparent {
		return verdict{again: true}
	}
	if r.dropped {
		return verdict{}
	}
	asks, wait := pushbackOf(trailer)
	if asks == pushedAway {
		r.throttle.failed()
		return verdict{}
	}
	if r.policy == nil || !slices.Contains(r.policy.RetryableStatusCodes, code) {
		return verdict{}
	}
	if r.throttle.failed() || r.attempts >= min(r.policy.MaxAttempts, r.maxAttempts) {
		return verdict{}
	}
	if asks == pushedBack {
		r.backoffs = 0
		return verdict{again: true, wait: wait}
	}
	ceiling := min(float64(r.policy.MaxBackoff), float64(r.policy.InitialBackoff)*math.Pow(r.policy.BackoffMultiplier, float64(r.backoffs)))
	r.backoffs++
	// Jitter of a fifth either way (gRFC A6 as revised).
	return verdict{again: true, wait: time.Duration(ceiling * (0.8 + 0.4*rand.Float64()))}
}

// progress is how far the server got with a failed attempt.
type progress uint8

const (
	maybeProcessed progress = iota // it may have begun to process it
	notSent                        // nothing was sent
	notProcessed                   // it reported that it did nothing (GOAWAY, REFUSED_STREAM)
	unreached                      // no connection could be made for it, and only waitForReady repeats it unless a policy does
)
