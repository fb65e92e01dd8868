package rpc

import (
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/stats"
)

// recorder passes the metrics that resolvers and balancers record to the stats handlers that record metrics,
// such as OpenTelemetry's.
type recorder struct {
	estats.MetricsRecorder // grpc-go's marker
	to                     []estats.MetricsRecorder
}

func recorderOf(hs []stats.Handler) estats.MetricsRecorder {
	r := recorder{}
	for _, h := range hs {
		if m, ok := h.(estats.MetricsRecorder); ok {
			r.to = append(r.to, m)
		}
	}
	return r
}

// RecordInt64Count implements estats.MetricsRecorder.
func (r recorder) RecordInt64Count(h *estats.Int64CountHandle, n int64, labels ...string) {
	for _, m := range r.to {
		m.RecordInt64Count(h, n, labels...)
	}
}

// RecordFloat64Count implements estats.MetricsRecorder.
func (r recorder) RecordFloat64Count(h *estats.Float64CountHandle, n float64, labels ...string) {
	for _, m := range r.to {
		m.RecordFloat64Count(h, n, labels...)
	}
}

// RecordInt64Histo implements estats.MetricsRecorder.
func (r recorder) RecordInt64Histo(h *estats.Int64HistoHandle, n int64, labels ...string) {
	for _, m := range r.to {
		m.RecordInt64Histo(h, n, labels...)
	}
}

// RecordFloat64Histo implements estats.MetricsRecorder.
func (r recorder) RecordFloat64Histo(h *estats.Float64HistoHandle, n float64, labels ...string) {
	for _, m := range r.to {
		m.RecordFloat64Histo(h, n, labels...)
	}
}

// RecordInt64Gauge implements estats.MetricsRecorder.
func (r recorder) RecordInt64Gauge(h *estats.Int64GaugeHandle, n int64, labels ...string) {
	for _, m := range r.to {
		m.RecordInt64Gauge(h, n, labels...)
	}
}
