package xds

import (
	"context"
	"reflect"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// newFilters returns the method NewStream of a route's HTTP filters, which is an interceptor of grpc-go's. It is not valid when there are none.
func newFilters(v reflect.Value, info reflect.Type) (reflect.Value, error) {
	var none reflect.Value
	if v.IsNil() || noFilters(v.Elem()) {
		return none, nil
	}
	f := v.Elem().MethodByName("NewStream")
	if !f.IsValid() || !isNewStream(f.Type(), info) {
		return none, status.Errorf(codes.Unavailable, "xds: grpc-go %s: HTTP filters of type %v are not known", grpc.Version, v.Elem().Type())
	}
	return f, nil
}

// noFilters reports whether v is an empty list of filters: grpc-go has one of a route whose only filter is the router.
func noFilters(v reflect.Value) bool {
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct || v.Elem().NumField() != 1 {
		return false
	}
	list := v.Elem().Field(0)
	return list.Kind() == reflect.Slice && list.Len() == 0
}

// isNewStream checks the type of the method: func(context.Context, RPCInfo, func(...), ...grpc.CallOption) (grpc.ClientStream, error).
func isNewStream(t, info reflect.Type) bool {
	return t.NumIn() == 4 && t.NumOut() == 2 && t.IsVariadic() &&
		t.In(0) == reflect.TypeFor[context.Context]() && t.In(1) == info &&
		reflect.TypeFor[rpc.CallStreamer]().ConvertibleTo(t.In(2)) && t.In(3) == reflect.TypeFor[[]grpc.CallOption]() &&
		t.Out(0) == reflect.TypeFor[grpc.ClientStream]() && t.Out(1) == reflect.TypeFor[error]()
}

func callFilters(f reflect.Value, ctx context.Context, info reflect.Value, next rpc.CallStreamer, opts []grpc.CallOption) (grpc.ClientStream, error) {
	if opts == nil {
		opts = []grpc.CallOption{} // as grpc-go's own client, which always has some
	}
	out := f.CallSlice([]reflect.Value{reflect.ValueOf(ctx), info, reflect.ValueOf(next).Convert(f.Type().In(2)), reflect.ValueOf(opts)})
	s, _ := out[0].Interface().(grpc.ClientStream)
	err, _ := out[1].Interface().(error)
	return s, err
}
