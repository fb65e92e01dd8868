package rpc

import (
	"errors"
	"slices"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/kept"
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
// keeps a view. Short messages that have arrived together share memory, which is poisoned or guarded when all of them are free; [CheckLent] finds a field that is kept in
// any case.
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

// LendStrings lends all of the requests of some methods to their handlers: strings as well, and bytes fields of any length, are views of a pool's
// memory, and the messages of a repeated field are allocated together. Requests of many short strings are decoded with a fifteenth
// of the allocations. It includes [LendRequests], and its rules hold for strings, too, with these dangers:
//
//   - A string that a handler keeps, in a cache, a log that is written later, a map's key or another goroutine, changes when the
//     memory is used again: Go programs rely on strings not to change. strings.Clone copies one.
//   - A handler that keeps one message of a repeated field keeps up to 128 of them in memory.
//   - What is made of a string may share its memory: a substring, the results of strings.Split and strings.TrimSpace. A
//     concatenation, fmt.Sprintf and strings.Clone do not.
//
// The status, header and trailer of the call may have such strings. Errors, traces and metrics that outlive it must not.
// [CheckLent] finds handlers that keep something. Messages of protoc-gen-go's opaque API, with extensions or groups are decoded as under
// LendRequests; so are those that protobuf-go decodes otherwise than in the ordinary case, such as malformed ones. Messages of vtprotobuf are decoded
// by UnmarshalVTUnsafe if they have it, which does not check that strings are UTF-8.
//
// methods are full names, "/service/method". Those of messages that implement [LentMessage] need no more than LendRequests.
func LendStrings(methods ...string) ServerOption {
	return serverOption(func(o *serverOptions) { o.lendViews = append(o.lendViews, methods...) })
}

// LentMessage is a message that decodes itself from memory that is lent to it, as those of module rpc/hyper do. Where requests are lent
// ([LendRequests]), or a response is ([LendResponse]), its methods are called, by one goroutine at a time; elsewhere UnmarshalLent
// gets memory of the garbage collector's.
type LentMessage = message.Lent

// CheckLent looks for what handlers keep of lent requests, in one request in every: its fields are separate memory, so that to keep one does no harm,
// and when three garbage collections after the call have not freed one, report gets its name. What is decoded by [LendStrings], and messages
// that implement [LentMessage], are looked at. Without CheckLent every is 1024, and grpclog gets an error for
// each field. Tests set it to 1, and call runtime.GC. report is called on a goroutine of the runtime's: it
// must not block. every below 1 turns the check off.
func CheckLent(every int, report func(KeptField)) ServerOption {
	return serverOption(func(o *serverOptions) { o.lentEvery, o.lentReport = every, report })
}

// KeptField is a field of a lent request that a handler has kept: its method, its name and its length.
type KeptField = kept.Field

// defaultLentEvery is one request in how many CheckLent looks at by default.
const defaultLentEvery = 1024

// logKept is CheckLent's report by default.
func logKept(k KeptField) {
	logger.Errorf("a handler of %s has kept %s of a lent request, %d bytes, beyond its return (see rpc.LendRequests)", k.Method, k.Name, k.Bytes)
}

// lends makes what lends the requests of a method; nil: they are not lent.
func (o *serverOptions) lends(path string) *lender {
	l := &lender{scope: message.LongBytes}
	switch {
	case slices.Contains(o.lendViews, path):
		l.scope = message.Views
	case !o.lendAll && !slices.Contains(o.lendOf, path):
		return nil
	}
	if o.lentEvery > 0 {
		l.finder = kept.NewFinder(path, uint32(o.lentEvery), o.lentReport)
	}
	return l
}

// lender lends the requests of one method.
type lender struct {
	scope  message.Scope
	finder *kept.Finder
}

// lease is for one call; nil if l is nil.
func (l *lender) lease() *message.Lease {
	if l == nil {
		return nil
	}
	return &message.Lease{Scope: l.scope, Finder: l.finder}
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
