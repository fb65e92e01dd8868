package hyper

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
)

// Method returns desc, a generated service's, with another handler of its unary method name, which gets requests of t. The service is
// registered with what Method returns in the place of desc; its other methods are the implementation's. Interceptors see the request as a
// *Message, too. It panics if the service has no such method.
func Method[R any](desc *grpc.ServiceDesc, name string, t *Type, handle func(context.Context, *Message) (R, error)) *grpc.ServiceDesc {
	d := *desc
	d.Methods = slices.Clone(desc.Methods)
	i := slices.IndexFunc(d.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == name })
	if i < 0 {
		panic(fmt.Sprintf("hyper: caller named a method %q, which %s does not have", name, desc.ServiceName))
	}
	path := "/" + desc.ServiceName + "/" + name
	d.Methods[i].Handler = func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := t.New()
		if err := dec(in); err != nil {
			return nil, err
		}
		if interceptor == nil {
			return handle(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: path}, func(ctx context.Context, req any) (any, error) {
			return handle(ctx, req.(*Message))
		})
	}
	return &d
}
