package opentelemetry

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// key is a context's key for what one handler knows of a call or an attempt. Each handler has keys of its
// own, so that two on one client do not see each other's.
type key struct{ of string }

// withoutConns is the part of a stats handler that connections would use.
type withoutConns struct{}

// TagConn implements stats.Handler.
func (withoutConns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (withoutConns) HandleConn(context.Context, stats.ConnStats) {}

// otherMethod stands for methods whose names a peer or a caller may make up.
const otherMethod = "other"

// staticMethod is the method's name for metrics, if the call's options say that it is not made up at run
// time, as generated code's do.
func staticMethod(method string, opts []grpc.CallOption) string {
	for _, o := range opts {
		if _, ok := o.(grpc.StaticMethodCallOption); ok {
			return strings.TrimLeft(method, "/")
		}
	}
	return otherMethod
}

// servedMethod is the method's name for metrics and spans: other, unless the server has it and filter, if
// there is one, admits it.
func servedMethod(ctx context.Context, method string, filter func(string) bool) string {
	ts, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ Registered() bool })
	if !ok || !ts.Registered() || filter != nil && !filter(method) {
		return otherMethod
	}
	return strings.TrimLeft(method, "/")
}

// spanName is a method's name behind prefix, with dots.
func spanName(prefix, method string) string {
	return prefix + strings.ReplaceAll(strings.TrimLeft(method, "/"), "/", ".")
}

// codeNames are the names of gRPC's specification, with which metrics are labelled.
var codeNames = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// codeName is the name of err's code.
func codeName(err error) string { return nameOf(status.Code(err)) }

func nameOf(c codes.Code) string {
	if c < codes.Code(len(codeNames)) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE(%d)", c)
}
