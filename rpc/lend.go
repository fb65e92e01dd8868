package rpc

import (
	"slices"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
)

// LendRequests lends requests to handlers: a bytes field of 1 KiB or more, nested and repeated ones included, is a
// view of a pool's memory, and makes no garbage. It is the memory into which the request was received; a request that
// arrived in several pieces is copied to one first. Such a field is valid until the response of a
// unary handler has been encoded, and in a stream until its next RecvMsg or the handler's return; then the memory may
// hold another request. The response may have views of the request. A handler that keeps a message, or passes it to a
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
// called, and in a stream only until the next RecvMsg. *release is set when the call begins; the caller calls
// it when it no longer uses the response, after errors too, and not concurrently with RecvMsg. A second call
// does nothing. Without the call the pool does not get the memory back.
func LendResponse(release *func()) grpc.CallOption { return lendResponse{release: release} }

type lendResponse struct {
	grpc.EmptyCallOption
	release *func()
}

// lease makes the lease that *release ends.
func (o lendResponse) lease() *message.Lease {
	l := new(message.Lease)
	*o.release = l.Release
	return l
}
