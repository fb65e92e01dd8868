package balance

import (
	"google.golang.org/grpc/credentials"
	estats "google.golang.org/grpc/experimental/stats"
)

// Metrics records what grpc-go records of its connections (gRFC A94), under grpc-go's names and
// with its labels. grpc-go registers them, off by default.
type Metrics struct {
	to     estats.MetricsRecorder
	target string

	made, failed, lost, open *estats.MetricDescriptor // nil: not recorded
}

// NoMetrics returns what records nothing of connections. Resolvers and balancers record with to.
func NoMetrics(to estats.MetricsRecorder) *Metrics { return &Metrics{to: to} }

// Recorder is what resolvers and balancers record with.
func (m *Metrics) Recorder() estats.MetricsRecorder { return m.to }

// NewMetrics returns what records with to, of the connections of a client of target, too.
func NewMetrics(to estats.MetricsRecorder, target string) *Metrics {
	return &Metrics{to: to, target: target,
		made:   estats.DescriptorForMetric("grpc.subchannel.connection_attempts_succeeded"),
		failed: estats.DescriptorForMetric("grpc.subchannel.connection_attempts_failed"),
		lost:   estats.DescriptorForMetric("grpc.subchannel.disconnections"),
		open:   estats.DescriptorForMetric("grpc.subchannel.open_connections"),
	}
}

// connected counts a new connection.
func (m *Metrics) connected(info credentials.AuthInfo) {
	m.count(m.made, "")
	m.addOpen(1, info)
}

// disconnected counts the end of a connection's use. why is the label grpc.disconnect_error.
func (m *Metrics) disconnected(info credentials.AuthInfo, why string) {
	m.count(m.lost, why)
	m.addOpen(-1, info)
}

// notConnected counts an attempt to connect that failed at all addresses.
func (m *Metrics) notConnected() {
	m.count(m.failed, "")
}

func (m *Metrics) count(d *estats.MetricDescriptor, why string) {
	if d != nil {
		m.to.RecordInt64Count((*estats.Int64CountHandle)(d), 1, m.labels(d, nil, why)...)
	}
}

// addOpen adds to the count of open connections.
func (m *Metrics) addOpen(n int64, info credentials.AuthInfo) {
	if m.open != nil {
		m.to.RecordInt64UpDownCount((*estats.Int64UpDownCountHandle)(m.open), n, m.labels(m.open, info, "")...)
	}
}

// labels returns the values that d wants, in its order. grpc.lb.locality and grpc.lb.backend_service are
// xDS's, and empty.
func (m *Metrics) labels(d *estats.MetricDescriptor, info credentials.AuthInfo, why string) []string {
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

// Values of grpc.disconnect_error for connections that the balancer or the resolver gives up.
const (
	subchannelShutdown = "subchannel shutdown"
	unknownDisconnect  = "unknown"
)
