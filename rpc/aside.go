package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
)

// errExited is the error of a function of the application's that has ended its goroutine (runtime.Goexit, as testing.T.FailNow does).
var errExited = errors.New("the application's function has ended its goroutine")

// aside runs f, which calls functions of the application's that may ignore their context, on a goroutine of its own. It returns f's result,
// or, when stop is closed before that, abandoned; a result that comes later is given to drop.
func aside[T any](stop <-chan struct{}, f func() (T, error), drop func(T), abandoned func() error) (T, error) {
	type result struct {
		v   T
		err error
	}
	ended := make(chan result)
	go func() {
		r := result{err: errExited}
		defer func() {
			select {
			case ended <- r:
			case <-stop:
				if r.err == nil {
					drop(r.v)
				}
			}
		}()
		r.v, r.err = f()
	}()
	select {
	case r := <-ended:
		return r.v, r.err
	case <-stop:
		var none T
		return none, abandoned()
	}
}

// roundTripAside sends r with a round tripper of the application's, and returns when r's context ends, also if the round tripper or the
// response's body ignore it. Then nobody but them uses body, the content of r, which may be nil.
func roundTripAside(rt http.RoundTripper, r *http.Request, body *requestMessage, pool *tarn.Pool) (*http.Response, error) {
	switch rt.(type) {
	case *http.Transport, *h2http.Transport: // they return when the context ends
		return rt.RoundTrip(r)
	}
	ctx := r.Context()
	res, err := aside(ctx.Done(), func() (*http.Response, error) { return rt.RoundTrip(r) },
		func(res *http.Response) { res.Body.Close() },
		func() error {
			body.revoke()
			return ctx.Err()
		})
	if err != nil {
		return nil, err
	}
	res.Body = newBodyAside(ctx, res.Body, pool)
	return res, nil
}

// bodyAsideLen is how many bytes are read at once from the body of a response of the application's round tripper.
const bodyAsideLen = 8 << 10

// bodyAside is the body of a response that is read on a goroutine of its own. Read returns when the request's context ends.
type bodyAside struct {
	*io.PipeReader
	stop func() bool
}

func newBodyAside(ctx context.Context, from io.ReadCloser, pool *tarn.Pool) *bodyAside {
	out, in := io.Pipe()
	b := &bodyAside{out, context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })}
	go func() {
		defer from.Close()
		defer in.CloseWithError(errExited) // without an effect, unless from has ended the goroutine
		space := pool.Get(bodyAsideLen)
		defer space.Free()
		_, err := io.CopyBuffer(onlyWriter{in}, onlyReader{from}, space.Bytes())
		in.CloseWithError(err) // nil is io.EOF
	}()
	return b
}

// onlyWriter and onlyReader keep io.CopyBuffer to its buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// Close does not wait for the goroutine, which closes the body that it reads.
func (b *bodyAside) Close() error {
	b.stop()
	return b.PipeReader.Close()
}
