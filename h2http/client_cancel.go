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

// withCancel returns a copy of r whose context also ends when r.Cancel is closed. The caller calls end when
// the request and its response have ended.
func withCancel(r *http.Request) (copied *http.Request, end func()) {
	parent := r.Context()
	ctx := &streamContext{parent: context.WithoutCancel(parent)}
	cancel := cancelOf(r)
	select {
	case <-cancel:
		ctx.end(errRequestCanceled)
	default:
		go follow(ctx, parent, cancel)
	}
	return r.WithContext(ctx), func() { ctx.end(context.Canceled) }
}

// follow ends ctx when parent ends or cancel is closed, and returns when ctx has ended.
func follow(ctx *streamContext, parent context.Context, cancel <-chan struct{}) {
	select {
	case <-cancel:
		ctx.end(errRequestCanceled)
	case <-parent.Done():
		if parent.Err() == context.DeadlineExceeded {
			timer := time.NewTimer(timeoutGrace)
			defer timer.Stop()
			select {
			case <-cancel:
			case <-timer.C:
			}
		}
		ctx.end(parent.Err())
	case <-ctx.Done():
	}
}
