package h2http

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// errRequestCanceled is returned for a request whose Cancel channel has been closed. The text is net/http's.
var errRequestCanceled = errors.New("net/http: request canceled")

// timeoutGrace bounds how long a request that has a Cancel channel waits for it after the deadline of its
// context. For its Timeout, http.Client sets both for the same time, and names its Timeout in the error only
// if it has closed the channel by then.
const timeoutGrace = 5 * time.Millisecond

// cancelOf returns r.Cancel.
func cancelOf(r *http.Request) <-chan struct{} {
	//lint:ignore SA1019 http.Client sets it for its Timeout, and net/http's HTTP/2 honours it
	return r.Cancel
}

// cancelContext is the context of a request that has a Cancel channel. Why it has ended is what Err returns, as
// for other contexts, and its cause is that of causes, which ends first.
type cancelContext struct {
	streamContext
	causes context.Context
	cause  context.CancelCauseFunc // of causes
}

// Value is that of the request's context, and leads package context's Cause to causes.
func (c *cancelContext) Value(key any) any { return c.causes.Value(key) }

// endAs ends the context with err because of cause.
func (c *cancelContext) endAs(err, cause error) {
	c.cause(cause)
	c.end(err)
}

// canceled ends the context because Cancel has been closed. After the deadline of parent that is the error, as in net/http: for its
// Timeout, http.Client closes the channel at the time of the deadline, and either may be noticed first.
func (c *cancelContext) canceled(parent context.Context) {
	if d, ok := parent.Deadline(); ok && !time.Now().Before(d) {
		c.endAs(context.DeadlineExceeded, context.DeadlineExceeded)
		return
	}
	c.endAs(errRequestCanceled, errRequestCanceled)
}

// withCancel returns a copy of r whose context also ends when r.Cancel is closed. The caller calls end when
// the request and its response have ended.
func withCancel(r *http.Request) (copied *http.Request, end func()) {
	parent := r.Context()
	ctx := &cancelContext{streamContext: streamContext{parent: context.WithoutCancel(parent)}}
	ctx.causes, ctx.cause = context.WithCancelCause(ctx.parent)
	cancel := cancelOf(r)
	select {
	case <-cancel:
		ctx.canceled(parent)
	case <-parent.Done():
		follow(ctx, parent, cancel) // before the request, which a goroutine would let begin first
	default:
		go follow(ctx, parent, cancel)
	}
	return r.WithContext(ctx), func() { ctx.endAs(context.Canceled, context.Canceled) }
}

// follow ends ctx when parent ends or cancel is closed, and returns when ctx has ended.
func follow(ctx *cancelContext, parent context.Context, cancel <-chan struct{}) {
	select {
	case <-cancel:
		ctx.canceled(parent)
	case <-parent.Done():
		if parent.Err() == context.DeadlineExceeded {
			timer := time.NewTimer(timeoutGrace)
			defer timer.Stop()
			select {
			case <-cancel:
			case <-timer.C:
			}
		}
		ctx.endAs(parent.Err(), context.Cause(parent))
	case <-ctx.Done():
	}
}
