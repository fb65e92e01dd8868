package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// interceptors are a client's, chained. The zero interceptors are none.
type interceptors struct {
	unary  grpc.UnaryClientInterceptor  // nil: none
	stream grpc.StreamClientInterceptor // nil: none

	// The arguments that are the same for every call. They are nil without interceptors.
	conn     *grpc.ClientConn // AsGRPC's: its target, state and calls are the client's
	invoker  grpc.UnaryInvoker
	streamer grpc.Streamer
}

// intercept chains the interceptors of the options: grpc-go's single ones are outermost, a call log is innermost.
func (cc *ClientConn) intercept() (err error) {
	o, is := &cc.opts, &cc.around
	if o.unaryOne != nil {
		o.unary = append([]grpc.UnaryClientInterceptor{o.unaryOne}, o.unary...)
	}
	if o.streamOne != nil {
		o.stream = append([]grpc.StreamClientInterceptor{o.streamOne}, o.stream...)
	}
	warnOfTracing()
	if warnOfFilter(o.callLog, "WithBinaryLog"); o.callLog != nil {
		l := callLogger{cc, o.callLog}
		o.unary, o.stream = append(o.unary, l.unary), append(o.stream, l.stream)
	}
	is.unary, is.stream = chainUnaryClient(o.unary), chainStreamClient(o.stream)
	if is.unary == nil && is.stream == nil {
		return nil
	}
	is.invoker = func(ctx context.Context, method string, req, reply any, on *grpc.ClientConn, opts ...grpc.CallOption) error {
		if is.another(on) {
			return on.Invoke(ctx, method, req, reply, opts...)
		}
		return cc.invoke(ctx, method, req, reply, cc.passedOn(opts))
	}
	is.streamer = func(ctx context.Context, desc *grpc.StreamDesc, on *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if is.another(on) {
			return on.NewStream(ctx, desc, method, opts...)
		}
		return cc.newStream(ctx, desc, method, cc.passedOn(opts))
	}
	is.conn, err = cc.facade.get(cc)
	return err
}

// another reports whether an interceptor has passed on another ClientConn than the client's.
func (is *interceptors) another(on *grpc.ClientConn) bool { return on != nil && on != is.conn }

// withDefaults puts the default call options in front, for interceptors to see and to change.
func (cc *ClientConn) withDefaults(opts []grpc.CallOption) []grpc.CallOption {
	if len(cc.defaults.of) == 0 {
		return opts
	}
	return append(cc.defaults.of[:len(cc.defaults.of):len(cc.defaults.of)], opts...)
}
