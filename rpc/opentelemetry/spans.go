package opentelemetry

import (
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

func tracerOf(o experimental.TraceOptions) trace.Tracer {
	return o.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(grpc.Version))
}

// attemptSpan is the span of a client's attempt or of a server's call.
type attemptSpan struct {
	span           trace.Span
	sent, received int64 // messages; each is counted by one goroutine at a time
}

// note adds an event, or ends the span.
func (a *attemptSpan) note(event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.DelayedPickComplete:
		a.span.AddEvent("Delayed LB pick complete")
	case *stats.InPayload:
		a.message("Inbound message", &a.received, e.Length, e.CompressedLength)
	case *stats.OutPayload:
		a.message("Outbound message", &a.sent, e.Length, e.CompressedLength)
	case *stats.End:
		if e.Error != nil {
			a.span.SetStatus(otelcodes.Error, status.Convert(e.Error).Message())
		} else {
			a.span.SetStatus(otelcodes.Ok, "Ok")
		}
		a.span.End()
	}
}

// message adds the event of a message of size bytes, which are packed bytes on the wire.
func (a *attemptSpan) message(name string, count *int64, size, packed int) {
	kv := []attribute.KeyValue{attribute.Int64("sequence-number", *count), attribute.Int("message-size", size)}
	if packed != size {
		kv = append(kv, attribute.Int("message-size-compressed", packed))
	}
	a.span.AddEvent(name, trace.WithAttributes(kv...))
	*count++
}
