package opentelemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
)

// serverTraces makes a span of each call, below that of the client's attempt.
type serverTraces struct {
	withoutConns
	call       *key
	filter     func(method string) bool // nil: all methods
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator // nil: each span is a root
}

func newServerTraces(o grpcotel.Options) *serverTraces {
	return &serverTraces{call: &key{"call"}, filter: o.MetricsOptions.MethodAttributeFilter,
		tracer: tracerOf(o.TraceOptions), propagator: o.TraceOptions.TextMapPropagator}
}

// TagRPC implements stats.Handler.
func (h *serverTraces) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	name := spanName("Recv.", servedMethod(ctx, info.FullMethodName, h.filter))
	if h.propagator != nil {
		ctx = h.propagator.Extract(ctx, incoming{ctx})
	}
	ctx, span := h.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return context.WithValue(ctx, h.call, &attemptSpan{span: span})
}

// HandleRPC implements stats.Handler.
func (h *serverTraces) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if c, ok := ctx.Value(h.call).(*attemptSpan); ok {
		c.note(event)
	}
}
