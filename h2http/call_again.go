package h2http

import (
	"errors"
	"io"
	"net/http"

	"github.com/tarn-go/tarn/h2"
)

// This file says which requests are sent again, because the server has not processed them, and with which body.

// wasUnprocessed reports whether the call has ended, and the peer has not processed its request. After roundTrip has returned because
// of the request's context, onReset may still be called.
func (x *call) wasUnprocessed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unprocessed
}

// isUnprocessed reports whether err says that the peer has not processed the request, and that another connection
// may: a GOAWAY with an error that answers a connection's first request is likely to answer the next one's, too.
func (x *call) isUnprocessed(err error) bool {
	var away *h2.GoAwayError
	if errors.As(err, &away) {
		return away.Code == h2.NoError || !x.first
	}
	var se *h2.StreamError
	return errors.As(err, &se) && se.Code == h2.RefusedStream && se.Fault == h2.Told
}

// again returns a request that can be sent after x has failed.
func (x *call) again() (*http.Request, error) {
	r := x.request
	if r.Body == nil || r.Body == http.NoBody || !x.sending.started.Load() {
		return r, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("h2http: the request's body has been read")
	}
	b, err := getBody(r)
	if err != nil {
		return nil, err
	}
	next := *r
	next.Body = b
	return &next, nil
}

// getBody calls r.GetBody on a goroutine of its own, since it may block, and waits for it until r's context ends. A body that it
// returns later is closed.
func getBody(r *http.Request) (io.ReadCloser, error) {
	type got struct {
		body io.ReadCloser
		err  error
	}
	ch := make(chan got)
	ctx := r.Context()
	go func() {
		g := got{err: errors.New("h2http: GetBody has ended its goroutine")}
		defer func() {
			select {
			case ch <- g:
			case <-ctx.Done():
				if g.body != nil {
					g.body.Close()
				}
			}
		}()
		g.body, g.err = r.GetBody()
	}()
	select {
	case g := <-ch:
		return g.body, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
