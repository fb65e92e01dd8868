package rpc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// HedgingPolicy says which calls are sent several times without waiting for a failure,
// and when (gRFC A6). The call commits to the first attempt that the server answers with
// a header, and to the first whose status is not among NonFatalStatusCodes, OK included;
// the other attempts are then cancelled. An attempt that the balancer drops ends the call, too. A method needs to be safe to run more than once.
//
// Sent messages are kept until the call commits, up to the limit of grpc.MaxRetryRPCBufferSize (256 KiB
// unless set); beyond it the call commits to the attempt that has sent the most. A call returns when its
// other attempts have ended too: none uses memory, a connection's stream or a credential afterwards.
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

// WithHedgingPolicy hedges calls of every method for which the service config has neither a retry nor a
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
