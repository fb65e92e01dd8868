package opentelemetry

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/stats"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
)

// serverMetrics records a server's calls.
type serverMetrics struct {
	withoutConns
	call   *key
	filter func(method string) bool // nil: all methods

	started        metric.Int64Counter
	sent, received metric.Int64Histogram
	duration       metric.Float64Histogram
}

func newServerMetrics(o grpcotel.MetricsOptions) *serverMetrics {
	in := newInstruments(o)
	return &serverMetrics{call: &key{"call"}, filter: o.MethodAttributeFilter,
		started:  in.counter(grpcotel.ServerCallStartedMetricName, "{call}", "Number of server calls started."),
		sent:     in.sizes(grpcotel.ServerCallSentCompressedTotalMessageSizeMetricName, "Compressed message bytes sent per server call."),
		received: in.sizes(grpcotel.ServerCallRcvdCompressedTotalMessageSizeMetricName, "Compressed message bytes received per server call."),
		duration: in.seconds(grpcotel.ServerCallDurationMetricName,
			"End-to-end time taken to complete a call from server transport's perspective."),
	}
}

// serverCall is one call. Its counts change while messages are sent and received, which may be by two
// goroutines.
type serverCall struct {
	method         string
	begun          time.Time
	sent, received atomic.Int64 // bytes of messages, compressed
}

// TagRPC implements stats.Handler.
func (h *serverMetrics) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, h.call, &serverCall{method: servedMethod(ctx, info.FullMethodName, h.filter), begun: time.Now()})
}

// HandleRPC implements stats.Handler.
func (h *serverMetrics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	c, ok := ctx.Value(h.call).(*serverCall)
	if !ok {
		return
	}
	switch e := event.(type) {
	case *stats.InHeader:
		h.started.Add(ctx, 1, with(attribute.String("grpc.method", c.method)))
	case *stats.OutPayload:
		c.sent.Add(int64(e.CompressedLength))
	case *stats.InPayload:
		c.received.Add(int64(e.CompressedLength))
	case *stats.End:
		as := with(attribute.String("grpc.method", c.method), attribute.String("grpc.status", codeName(e.Error)))
		h.duration.Record(ctx, time.Since(c.begun).Seconds(), as)
		h.sent.Record(ctx, c.sent.Load(), as)
		h.received.Record(ctx, c.received.Load(), as)
	}
}
