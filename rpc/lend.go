package rpc

import (
	"errors"
	"slices"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
)

// LendRequests lends requests to handlers: a bytes field of 1 KiB or more, nested and repeated ones included, is a
// view of a pool's memory, and makes no garbage. It is the memory into which the request was received; a request that
// arrived in several pieces is copied to one first. Such a field is valid until the response of a
// unary handler has been encoded, and in a stream until its next RecvMsg or the handler's return; then the memory may
// hold another request. The response may have views of the request: of a request of 128 KiB or more, it is sent without a
// copy if its long fields together have at least half of the request's length, and copied otherwise. Over Connect, gRPC-Web and
// ServeHTTP such responses are copied, and so are messages of streams, also by [SendMsgInPlace]. A handler that keeps a message, or passes it to a
// goroutine or a cache, must copy the field first. With checks on (see tarn.CheckLevel) a pool poisons or guards the memory, so that tests find a handler that
// keeps a view.
//
// methods are full names, "/service/method"; without any, the requests of all methods are lent. Everything except
// long bytes fields is copied as usual; so are fields of maps and extensions, and messages of codecs other than
// protobuf. Requests that [Server.ServeHTTP] serves are lent as well. Interceptors and statistics handlers that keep
// messages must follow the same rule.
func LendRequests(methods ...string) ServerOption {
	return serverOption(func(o *serverOptions) {
		o.lendAll = o.lendAll || len(methods) == 0
		o.lendOf = append(o.lendOf, methods...)
	})
}

func (o *serverOptions) lends(path string) bool {
	return o.lendAll || slices.Contains(o.lendOf, path)
}

// LendResponse lends responses of one call to the caller: their bytes fields of 1 KiB or more, nested and
// repeated ones included, are views of a pool's memory, as with [LendRequests], and make no garbage. They are valid until *release is
// called, and in a stream only until the next RecvMsg. LendResponse sets *release; the caller calls
// it when it no longer uses the response, after errors too, and not concurrently with RecvMsg. It frees what all calls with the option were lent:
// there are several if an interceptor calls its invoker more than once. A second call
// does nothing. Without the call the pool does not get the memory back. As one variable cannot serve all calls of a client, NewClient fails
// with [ErrCallOption] for the option in [WithDefaultCallOptions].
func LendResponse(release *func()) grpc.CallOption {
	l := new(lending)
	*release = l.release
	return lendResponse{lending: l}
}

// ErrCallOption is wrapped by NewClient's errors for default call options that calls cannot share.
var ErrCallOption = errors.New("rpc: bad default call option")

type lendResponse struct {
	grpc.EmptyCallOption
	lending *lending
}

// lending is the memory that the calls with one LendResponse were lent.
type lending struct {
	mu       sync.Mutex
	released int      // how often
	first    lease    // of the first call: most have no other
	begun    bool     // first is in use
	holders  []*lease // with memory
}

// lease is the memory that one call was lent. Its goroutine is the call's, except for Release by lending.release.
type lease struct {
	message.Lease
	of       *lending
	released int  // of the lending, when the message was asked for
	holds    bool // it is in lending.holders; under lending.mu
}

// begin makes the lease of a call.
func (l *lending) begin() *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.first
	if l.begun {
		e = new(lease)
	}
	l.begun = true
	e.of, e.released = l, l.released
	return e
}

// release frees all memory that was lent.
func (l *lending) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released++
	for _, e := range l.holders {
		e.holds = false
		e.Release()
	}
	l.holders = nil
}

// memory is where a message is decoded to; nil: it is copied.
func (e *lease) memory() *message.Lease {
	if e == nil {
		return nil
	}
	return &e.Lease
}

// renew frees the last message of a stream, before the next is decoded.
func (e *lease) renew() {
	if e == nil {
		return
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.Release()
	e.released = e.of.released
}

// keep makes release free what has been decoded. If it was called since the message was asked for, by the caller of an interceptor that has
// several calls under way, the message is freed now.
func (e *lease) keep() {
	if e == nil {
		return
	}
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	if e.released != e.of.released {
		e.Release()
		return
	}
	if !e.holds && e.Size() > 0 {
		e.holds = true
		e.of.holders = append(e.of.holders, e)
	}
}
