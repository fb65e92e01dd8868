package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// chainUnaryServer combines interceptors into one, the first outermost; nil when there are none.
func chainUnaryServer(is []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	switch len(is) {
	case 0:
		return nil
	case 1:
		return is[0]
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return is[0](ctx, req, info, nextUnaryServer(is, 1, info, handler))
	}
}

func nextUnaryServer(is []grpc.UnaryServerInterceptor, i int, info *grpc.UnaryServerInfo, last grpc.UnaryHandler) grpc.UnaryHandler {
	if i == len(is) {
		return last
	}
	return func(ctx context.Context, req any) (any, error) {
		return is[i](ctx, req, info, nextUnaryServer(is, i+1, info, last))
	}
}

func chainStreamServer(is []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	switch len(is) {
	case 0:
		return nil
	case 1:
		return is[0]
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return is[0](srv, ss, info, nextStreamServer(is, 1, info, handler))
	}
}

func nextStreamServer(is []grpc.StreamServerInterceptor, i int, info *grpc.StreamServerInfo, last grpc.StreamHandler) grpc.StreamHandler {
	if i == len(is) {
		return last
	}
	return func(srv any, ss grpc.ServerStream) error {
		return is[i](srv, ss, info, nextStreamServer(is, i+1, info, last))
	}
}

func chainUnaryClient(is []grpc.UnaryClientInterceptor) grpc.UnaryClientInterceptor {
	switch len(is) {
	case 0:
		return nil
	case 1:
		return is[0]
	}
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return is[0](ctx, method, req, reply, cc, nextUnaryClient(is, 1, invoker), opts...)
	}
}

func nextUnaryClient(is []grpc.UnaryClientInterceptor, i int, last grpc.UnaryInvoker) grpc.UnaryInvoker {
	if i == len(is) {
		return last
	}
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		return is[i](ctx, method, req, reply, cc, nextUnaryClient(is, i+1, last), opts...)
	}
}

func chainStreamClient(is []grpc.StreamClientInterceptor) grpc.StreamClientInterceptor {
	switch len(is) {
	case 0:
		return nil
	case 1:
		return is[0]
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return is[0](ctx, desc, cc, method, nextStreamClient(is, 1, streamer), opts...)
	}
}

func nextStreamClient(is []grpc.StreamClientInterceptor, i int, last grpc.Streamer) grpc.Streamer {
	if i == len(is) {
		return last
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return is[i](ctx, desc, cc, method, nextStreamClient(is, i+1, last), opts...)
	}
}
