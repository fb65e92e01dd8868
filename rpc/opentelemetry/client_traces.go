package opentelemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// clientTraces makes a span of each call and, below it, one of each attempt, which the server's continues.
type clientTraces struct {
	withoutConns
	call, attempt *key
	tracer        trace.Tracer
	propagator    propagation.TextMapPropagator // nil: nothing is sent to the server
}

func newClientTraces(o experimental.TraceOptions) *clientTraces {
	return &clientTraces{call: &key{"call"}, attempt: &key{"attempt"}, tracer: tracerOf(o), propagator: o.TextMapPropagator}
}

// tracedCall is what the attempts of a call have in common. Hedged attempts run at the same time.
type tracedCall struct {
	span     trace.Span
	delayed  atomic.Bool  // the event of a delayed name resolution has been added
	attempts atomic.Int64 // begun so far
}

func (h *clientTraces) begin(ctx context.Context, method string) (context.Context, *tracedCall) {
	ctx, span := h.tracer.Start(ctx, spanName("Sent.", method), trace.WithSpanKind(trace.SpanKindClient))
	c := &tracedCall{span: span}
	return context.WithValue(ctx, h.call, c), c
}

func (c *tracedCall) end(err error) {
	s := status.Convert(err)
	if err == nil {
		c.span.SetStatus(otelcodes.Ok, s.Message())
	} else {
		c.span.SetStatus(otelcodes.Error, s.Message())
	}
	c.span.End()
}

func (h *clientTraces) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, c := h.begin(ctx, method)
	err := invoke(ctx, method, req, reply, cc, opts...)
	c.end(err)
	return err
}

func (h *clientTraces) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, c := h.begin(ctx, method)
	return open(ctx, desc, cc, method, append([]grpc.CallOption{grpc.OnFinish(c.end)}, opts...)...)
}

// TagRPC implements stats.Handler for an attempt. Calls of the connection's own, such as health checks,
// have passed no interceptor and have no spans.
func (h *clientTraces) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	c, ok := ctx.Value(h.call).(*tracedCall)
	if !ok {
		return ctx
	}
	if info.NameResolutionDelay && !c.delayed.Swap(true) && c.span.SpanContext().IsValid() {
		c.span.AddEvent("Delayed name resolution complete")
	}
	ctx, span := h.tracer.Start(ctx, spanName("Attempt.", info.FullMethodName))
	ctx = context.WithValue(ctx, h.attempt, &attemptSpan{span: span})
	if h.propagator == nil {
		return ctx
	}
	to := &outgoing{ctx}
	h.propagator.Inject(ctx, to)
	return to.ctx
}

// HandleRPC implements stats.Handler.
func (h *clientTraces) HandleRPC(ctx context.Context, event stats.RPCStats) {
	a, ok := ctx.Value(h.attempt).(*attemptSpan)
	if !ok {
		return
	}
	if e, ok := event.(*stats.Begin); ok {
		c := ctx.Value(h.call).(*tracedCall)
		a.span.SetAttributes(attribute.Int64("previous-rpc-attempts", c.attempts.Add(1)-1),
			attribute.Bool("transparent-retry", e.IsTransparentRetryAttempt))
	}
	a.note(event)
}
