package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// transportStream is a call in the form that grpc.SetHeader and its like use. It has one pointer, so that it is an interface's value without an
// allocation.
type transportStream[C serverCarrier] struct{ call C }

// Method is the full method name, "/service/method".
func (t transportStream[C]) Method() string { return t.call.asked().path }

// Registered reports whether a service has the method. Package rpc/opentelemetry asks for it.
func (t transportStream[C]) Registered() bool { return t.call.asked().method != nil }

// SetHeader adds to the metadata sent with the response header.
func (t transportStream[C]) SetHeader(md metadata.MD) error { return t.call.SetHeader(md) }

// SendHeader sends the response header.
func (t transportStream[C]) SendHeader(md metadata.MD) error { return t.call.SendHeader(md) }

// SetTrailer adds to the metadata sent with the status.
func (t transportStream[C]) SetTrailer(md metadata.MD) error {
	t.call.SetTrailer(md)
	return nil
}

// callOf returns the call of a handler's context; nil when there is none.
func callOf(ctx context.Context) serverCarrier {
	switch t := transportOf(ctx).(type) {
	case transportStream[*serverCall]:
		return t.call
	case transportStream[*webCall]:
		return t.call
	}
	return nil
}

// transportOf is the transport stream of a handler's context, without that of a call log; nil when there is none.
func transportOf(ctx context.Context) grpc.ServerTransportStream {
	ts := grpc.ServerTransportStreamFromContext(ctx)
	if l, ok := ts.(*loggedTransport); ok {
		return l.ServerTransportStream
	}
	return ts
}
