package rpc

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/credentials"
	estats "google.golang.org/grpc/experimental/stats"
)

// subchannelMetrics records what grpc-go records of its connections (gRFC A94), under grpc-go's names and
// with its labels. grpc-go registers them, off by default.
// A nil one records nothing.
type subchannelMetrics struct {
	to     estats.MetricsRecorder
	target string

	made, failed, lost, open *estats.MetricDescriptor
}

func newSubchannelMetrics(to estats.MetricsRecorder, target string) *subchannelMetrics {
	return &subchannelMetrics{to: to, target: target,
		made:   estats.DescriptorForMetric("grpc.subchannel.connection_attempts_succeeded"),
		failed: estats.DescriptorForMetric("grpc.subchannel.connection_attempts_failed"),
		lost:   estats.DescriptorForMetric("grpc.subchannel.disconnections"),
		open:   estats.DescriptorForMetric("grpc.subchannel.open_connections"),
	}
}

// connected counts a new connection.
func (m *subchannelMetrics) connected(info credentials.AuthInfo) {
	if m != nil {
		m.count(m.made, "")
		m.addOpen(1, info)
	}
}

// disconnected counts the end of a connection's use. why is the label grpc.disconnect_error.
func (m *subchannelMetrics) disconnected(info credentials.AuthInfo, why string) {
	if m != nil {
		m.count(m.lost, why)
		m.addOpen(-1, info)
	}
}

// notConnected counts an attempt to connect that failed at all addresses.
func (m *subchannelMetrics) notConnected() {
	if m != nil {
		m.count(m.failed, "")
	}
}

func (m *subchannelMetrics) count(d *estats.MetricDescriptor, why string) {
	if d != nil {
		m.to.RecordInt64Count((*estats.Int64CountHandle)(d), 1, m.labels(d, nil, why)...)
	}
}

// addOpen adds to the count of open connections.
func (m *subchannelMetrics) addOpen(n int64, info credentials.AuthInfo) {
	if m.open != nil {
		m.to.RecordInt64UpDownCount((*estats.Int64UpDownCountHandle)(m.open), n, m.labels(m.open, info, "")...)
	}
}

// labels returns the values that d wants, in its order. grpc.lb.locality and grpc.lb.backend_service are
// xDS's, and empty.
func (m *subchannelMetrics) labels(d *estats.MetricDescriptor, info credentials.AuthInfo, why string) []string {
	out := make([]string, 0, len(d.Labels)+len(d.OptionalLabels))
	for _, keys := range [...][]string{d.Labels, d.OptionalLabels} {
		for _, k := range keys {
			v := ""
			switch k {
			case "grpc.target":
				v = m.target
			case "grpc.security_level":
				v = securityLevel(info)
			case "grpc.disconnect_error":
				v = why
			}
			out = append(out, v)
		}
	}
	return out
}

func securityLevel(info credentials.AuthInfo) string {
	if c, ok := info.(interface {
		GetCommonAuthInfo() credentials.CommonAuthInfo
	}); ok {
		return c.GetCommonAuthInfo().SecurityLevel.String()
	}
	return ""
}

// Values of grpc.disconnect_error beside "GOAWAY" and a code.
const (
	subchannelShutdown = "subchannel shutdown"
	unknownDisconnect  = "unknown"
)

// disconnectError is gRFC A94's name for the error that a connection ended with.
func disconnectError(err error) string {
	var away *h2.GoAwayError
	var ended *h2.ConnError
	var number syscall.Errno
	switch {
	case errors.As(err, &away):
		return "GOAWAY " + away.Code.String()
	case errors.As(err, &ended) && ended.Fault == h2.Told: // a GOAWAY came before
		return "GOAWAY " + ended.Code.String()
	case errors.Is(err, context.Canceled):
		return subchannelShutdown
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "connection timed out"
	case errors.Is(err, syscall.ECONNABORTED):
		return "connection aborted"
	case errors.As(err, &number):
		return "socket error"
	}
	return unknownDisconnect
}
