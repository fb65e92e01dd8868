package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// interceptors are a client's, chained. The zero interceptors are none.
type interceptors struct {
	unary  grpc.UnaryClientInterceptor  // nil: none
	stream grpc.StreamClientInterceptor // nil: none

	// The arguments that are the same for every call, except the ClientConn, which is AsGRPC's. They are nil without interceptors.
	invoker  grpc.UnaryInvoker
	streamer grpc.Streamer
}

// intercept chains the interceptors of the options: grpc-go's single ones are outermost, a call log is innermost.
func (cc *ClientConn) intercept() {
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
		return
	}
	is.invoker = func(ctx context.Context, method string, req, reply any, on *grpc.ClientConn, opts ...grpc.CallOption) error {
		if cc.another(on) {
			return on.Invoke(ctx, method, req, reply, opts...)
		}
		return cc.invoke(ctx, method, req, reply, cc.passedOn(opts))
	}
	is.streamer = func(ctx context.Context, desc *grpc.StreamDesc, on *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if cc.another(on) {
			return on.NewStream(ctx, desc, method, opts...)
		}
		return cc.newStream(ctx, desc, method, cc.passedOn(opts))
	}
}

// interceptUnary makes a unary call through the interceptors.
func (cc *ClientConn) interceptUnary(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) error {
	opts = cc.withDefaults(opts)
	conn, err := cc.interceptedConn(opts)
	if err != nil {
		q := request{info: cc.none.info}
		_ = q.info.apply(opts) // the call fails in any case
		q.notSent(req)
		return err
	}
	return cc.around.unary(ctx, method, req, reply, conn, cc.around.invoker, opts...)
}

// interceptStream begins a streaming call through the interceptors.
func (cc *ClientConn) interceptStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption) (grpc.ClientStream, error) {
	opts = cc.withDefaults(opts)
	conn, err := cc.interceptedConn(opts)
	if err != nil {
		return nil, err
	}
	return cc.around.stream(ctx, desc, conn, method, cc.around.streamer, opts...)
}

// interceptedConn is the ClientConn that interceptors are given. It is made for the first call that they see: it costs three goroutines, which
// a client that makes no call need not have.
func (cc *ClientConn) interceptedConn(opts []grpc.CallOption) (*grpc.ClientConn, error) {
	conn, err := cc.facade.get(cc)
	if err == nil {
		return conn, nil
	}
	err = status.Errorf(codes.Internal, "rpc: grpc-go makes no ClientConn for interceptors: %v", err)
	o := callOptions{rest: opts}
	o.report(nil, err)
	return nil, err
}

// another reports whether an interceptor has passed on another ClientConn than the client's.
func (cc *ClientConn) another(on *grpc.ClientConn) bool {
	return on != nil && on != cc.facade.conn.Load()
}

// withDefaults puts the default call options in front, for interceptors to see and to change.
func (cc *ClientConn) withDefaults(opts []grpc.CallOption) []grpc.CallOption {
	if len(cc.defaults.of) == 0 {
		return opts
	}
	return append(cc.defaults.of[:len(cc.defaults.of):len(cc.defaults.of)], opts...)
}
