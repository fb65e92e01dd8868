package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// Invoke makes a unary call of the client itself on c, for a producer, without interceptors.
func (c *clientConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	var own call
	if err := own.initOwn(c, ctx, method, opts); err != nil {
		own.notSent(req)
		own.report(nil, err)
		return err
	}
	return own.unary(req, reply)
}

// NewStream begins a streaming call of the client itself on c, for a health check or a producer, without interceptors.
func (c *clientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	cs := &clientStream{desc: desc}
	if err := cs.initOwn(c, ctx, method, opts); err != nil {
		cs.report(nil, err)
		return nil, err
	}
	if err := cs.start(); err != nil {
		return nil, err
	}
	return cs, nil
}
