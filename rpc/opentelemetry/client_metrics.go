package opentelemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/experimental/stats/telemetry"
	"google.golang.org/grpc/stats"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
)

const (
	customLabel = "grpc.client.call.custom" // gRFC A108
	// Optional labels whose values come from xDS (gRFC A89). They are empty without it.
	localityLabel = "grpc.lb.locality"
	backendLabel  = "grpc.lb.backend_service"
)

// clientMetrics records a client's calls and attempts: interceptors for the calls, a stats handler for the
// attempts and for what balancers record.
type clientMetrics struct {
	withoutConns
	*registry
	call, attempt *key
	wantsCustom   bool
	xds           []string // the wanted labels that balancers set

	started        metric.Int64Counter
	duration       metric.Float64Histogram
	sent, received metric.Int64Histogram
	calls          metric.Float64Histogram
}

func newClientMetrics(o grpcotel.MetricsOptions) *clientMetrics {
	in := newInstruments(o)
	h := &clientMetrics{registry: newRegistry(in, o.OptionalLabels),
		call: &key{"call"}, attempt: &key{"attempt"}, wantsCustom: slices.Contains(o.OptionalLabels, customLabel),
		started:  in.counter(grpcotel.ClientAttemptStartedMetricName, "{attempt}", "Number of client call attempts started."),
		duration: in.seconds(grpcotel.ClientAttemptDurationMetricName, "End-to-end time taken to complete a client call attempt."),
		sent: in.sizes(grpcotel.ClientAttemptSentCompressedTotalMessageSizeMetricName,
			"Compressed message bytes sent per client call attempt."),
		received: in.sizes(grpcotel.ClientAttemptRcvdCompressedTotalMessageSizeMetricName,
			"Compressed message bytes received per call attempt."),
		calls: in.seconds(grpcotel.ClientCallDurationMetricName, "Time taken by gRPC to complete an RPC from application's perspective."),
	}
	for _, k := range o.OptionalLabels {
		if k != customLabel {
			h.xds = append(h.xds, k)
		}
	}
	return h
}

// clientCall is what the attempts of a call have in common.
type clientCall struct{ method, target string }

// clientAttempt is one attempt. Its counts change while messages are sent and received, which may be by two
// goroutines.
type clientAttempt struct {
	of             *clientCall
	begun          time.Time
	sent, received atomic.Int64 // bytes of messages, compressed

	mu     sync.Mutex
	labels map[string]string // that the balancer has set; nil: none is wanted
}

// label is called by the balancer while it picks.
func (a *clientAttempt) label(labels map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(a.labels, labels)
}

// labelled adds the labels called names to kv.
func (a *clientAttempt) labelled(kv []attribute.KeyValue, names []string) []attribute.KeyValue {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range names {
		if v, ok := a.labels[k]; ok {
			kv = append(kv, attribute.String(k, v))
		}
	}
	return kv
}

// attributes are those of a call or an attempt, with room for more.
func (h *clientMetrics) attributes(ctx context.Context, c *clientCall) []attribute.KeyValue {
	kv := make([]attribute.KeyValue, 0, 6)
	kv = append(kv, attribute.String("grpc.method", c.method), attribute.String("grpc.target", c.target))
	if h.wantsCustom {
		kv = append(kv, attribute.String(customLabel, estats.CustomLabelFromContext(ctx)))
	}
	return kv
}

// begin returns the context of a call, in which TagRPC finds it for each of its attempts.
func (h *clientMetrics) begin(ctx context.Context, cc *grpc.ClientConn, method string, opts []grpc.CallOption) (context.Context, *clientCall) {
	c := &clientCall{method: staticMethod(method, opts), target: cc.CanonicalTarget()}
	return context.WithValue(ctx, h.call, c), c
}

// unary and stream are interceptors: they record calls, retries and all.
func (h *clientMetrics) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, c := h.begin(ctx, cc, method, opts)
	begun := time.Now()
	err := invoke(ctx, method, req, reply, cc, opts...)
	h.end(ctx, c, begun, err)
	return err
}

func (h *clientMetrics) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, c := h.begin(ctx, cc, method, opts)
	begun := time.Now()
	finish := grpc.OnFinish(func(err error) { h.end(ctx, c, begun, err) })
	return open(ctx, desc, cc, method, append([]grpc.CallOption{finish}, opts...)...)
}

// end records a call.
func (h *clientMetrics) end(ctx context.Context, c *clientCall, begun time.Time, err error) {
	kv := append(h.attributes(ctx, c), attribute.String("grpc.status", codeName(err)))
	h.calls.Record(ctx, time.Since(begun).Seconds(), with(kv...))
}

// TagRPC implements stats.Handler for an attempt. Calls of the connection's own, such as health checks,
// have passed no interceptor and are not recorded.
func (h *clientMetrics) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	c, ok := ctx.Value(h.call).(*clientCall)
	if !ok {
		return ctx
	}
	a := &clientAttempt{of: c, begun: time.Now()}
	if len(h.xds) > 0 {
		a.labels = map[string]string{localityLabel: "", backendLabel: ""}
		ctx = telemetry.NewContextWithLabelCallback(ctx, a.label)
	}
	return context.WithValue(ctx, h.attempt, a)
}

// HandleRPC implements stats.Handler.
func (h *clientMetrics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	a, ok := ctx.Value(h.attempt).(*clientAttempt)
	if !ok {
		return
	}
	switch e := event.(type) {
	case *stats.Begin:
		h.started.Add(ctx, 1, with(h.attributes(ctx, a.of)...))
	case *stats.OutPayload:
		a.sent.Add(int64(e.CompressedLength))
	case *stats.InPayload:
		a.received.Add(int64(e.CompressedLength))
	case *stats.End:
		kv := append(h.attributes(ctx, a.of), attribute.String("grpc.status", codeName(e.Error)))
		as := with(a.labelled(kv, h.xds)...)
		h.duration.Record(ctx, time.Since(a.begun).Seconds(), as)
		h.sent.Record(ctx, a.sent.Load(), as)
		h.received.Record(ctx, a.received.Load(), as)
	}
}
