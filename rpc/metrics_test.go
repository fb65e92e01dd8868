package rpc_test

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/stats"
)

// counted is a metric of a third-party balancer.
var counted = estats.RegisterInt64Count(estats.MetricDescriptor{Name: "rpc_test.counted", Labels: []string{"who"}})

// countingHandler is a stats handler that records metrics. It embeds the interface, as a handler does that
// was written for an older grpc-go.
type countingHandler struct {
	estats.MetricsRecorder
	mu  sync.Mutex
	got []string
}

func (h *countingHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}
func (h *countingHandler) HandleRPC(context.Context, stats.RPCStats) {}
func (h *countingHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (h *countingHandler) HandleConn(context.Context, stats.ConnStats) {}

func (h *countingHandler) RecordInt64Count(d *estats.Int64CountHandle, n int64, labels ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, d.Name+" "+labels[0])
}

// recorders returns what a resolver's builder and a balancer get of a client with opts.
func recorders(t *testing.T, opts ...rpc.DialOption) []estats.MetricsRecorder {
	x := newSwitching(t, opts...)
	p := x.to(scriptedA)
	t.Cleanup(func() { x.cc.Close(); <-p.closed })
	p.show(connectivity.Ready)
	return []estats.MetricsRecorder{p.cc.MetricsRecorder(), x.options.MetricsRecorder}
}

func TestMetricsReachEveryHandler(t *testing.T) {
	a, b := &countingHandler{}, &countingHandler{}
	for _, r := range recorders(t, rpc.WithStatsHandler(a), rpc.WithStatsHandler(&eventLog{}), rpc.WithStatsHandler(b)) {
		counted.Record(r, 1, "balancer")
	}
	for _, h := range []*countingHandler{a, b} {
		if want := []string{"rpc_test.counted balancer", "rpc_test.counted balancer"}; !reflect.DeepEqual(h.got, want) {
			t.Errorf("a handler got %q, want %q", h.got, want)
		}
	}
}

// TestMetricsWithoutHandler calls every method that the linked grpc-go's recorders have.
func TestMetricsWithoutHandler(t *testing.T) {
	d := &estats.MetricDescriptor{Name: "rpc_test.nowhere"}
	for _, r := range recorders(t) {
		v := reflect.ValueOf(r)
		typ := reflect.TypeFor[estats.MetricsRecorder]()
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			if m.PkgPath != "" { // grpc-go's marker
				continue
			}
			var in []reflect.Value
			for j := range m.Type.NumIn() {
				arg := reflect.Zero(m.Type.In(j))
				if j == 0 && reflect.TypeOf(d).ConvertibleTo(arg.Type()) {
					arg = reflect.ValueOf(d).Convert(arg.Type())
				}
				in = append(in, arg)
			}
			for _, out := range v.MethodByName(m.Name).CallSlice(in) {
				if stop, ok := out.Interface().(func()); ok {
					stop() // RegisterAsyncReporter's
				}
			}
		}
	}
}
