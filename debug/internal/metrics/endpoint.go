package metrics

import (
	"maps"
	"slices"

	"github.com/tarn-go/tarn/debug/endpoint"
)

// EndpointMetric is a family of values of a server or client. Its labels come after the label "endpoint".
type EndpointMetric struct {
	Name   string
	Help   string
	Unit   string
	Kind   Kind
	Labels []string
	Values func(endpoint.State) []Point
}

// Point is one value and those of its labels.
type Point struct {
	Labels []string
	Value  float64
}

// Endpoint returns the metrics of a server or client. Those of calls have values where calls are observed.
func Endpoint() []EndpointMetric {
	one := func(f func(endpoint.State) float64) func(endpoint.State) []Point {
		return func(e endpoint.State) []Point { return []Point{{Value: f(e)}} }
	}
	by := func(f func(endpoint.State) map[string]uint64) func(endpoint.State) []Point {
		return func(e endpoint.State) []Point {
			m := f(e)
			list := make([]Point, 0, len(m))
			for _, k := range slices.Sorted(maps.Keys(m)) {
				list = append(list, Point{[]string{k}, float64(m[k])})
			}
			return list
		}
	}
	ofMethods := func(f func(endpoint.Method) []Point) func(endpoint.State) []Point {
		return func(e endpoint.State) []Point {
			var list []Point
			for _, m := range e.Methods {
				for _, p := range f(m) {
					list = append(list, Point{append([]string{m.Name}, p.Labels...), p.Value})
				}
			}
			return list
		}
	}
	ofSession := func(f func(*endpoint.Session) uint64) func(endpoint.State) []Point {
		return func(e endpoint.State) []Point {
			if e.Session == nil {
				return nil
			}
			return []Point{{Value: float64(f(e.Session))}}
		}
	}
	return []EndpointMetric{
		{"tarn_endpoint_connections", "HTTP/2 connections that have not ended.", "{connection}", Gauge, nil, one(func(e endpoint.State) float64 { return float64(e.Conns) })},
		{"tarn_endpoint_streams", "Streams open or not released, on the busiest connections.", "{stream}", Gauge, nil, one(func(e endpoint.State) float64 { return float64(e.Streams) })},
		{"tarn_endpoint_waiting", "Calls that wait because the peer permits no further stream.", "{call}", Gauge, nil, one(func(e endpoint.State) float64 { return float64(e.Waiting) })},
		{"tarn_endpoint_resets_sent_total", "Streams reset by this side.", "{stream}", Counter, nil, one(func(e endpoint.State) float64 { return float64(e.ResetsSent) })},
		{"tarn_endpoint_resets_received_total", "Streams reset by peers.", "{stream}", Counter, nil, one(func(e endpoint.State) float64 { return float64(e.ResetsReceived) })},
		{"tarn_endpoint_refused_total", "Streams of peers answered with REFUSED_STREAM.", "{stream}", Counter, nil, one(func(e endpoint.State) float64 { return float64(e.Refused) })},
		{"tarn_endpoint_keepalive_timeouts_total", "Connections that did not answer keepalive.", "{connection}", Counter, nil, one(func(e endpoint.State) float64 { return float64(e.KeepaliveTimeouts) })},
		{"tarn_endpoint_goaways_sent_total", "GOAWAY frames sent.", "{frame}", Counter, []string{"code"}, by(func(e endpoint.State) map[string]uint64 { return e.GoAwaysSent })},
		{"tarn_endpoint_goaways_received_total", "GOAWAY frames received.", "{frame}", Counter, []string{"code"}, by(func(e endpoint.State) map[string]uint64 { return e.GoAwaysReceived })},
		{"tarn_endpoint_ended_total", "Connections ended because the peer broke the protocol or crossed a limit.", "{connection}", Counter, []string{"reason"}, by(func(e endpoint.State) map[string]uint64 { return e.Ended })},
		{"tarn_endpoint_calls_started_total", "Calls begun.", "{call}", Counter, []string{"method"}, ofMethods(func(m endpoint.Method) []Point { return []Point{{Value: float64(m.Started)}} })},
		{"tarn_endpoint_calls_active", "Calls in progress.", "{call}", Gauge, []string{"method"}, ofMethods(func(m endpoint.Method) []Point { return []Point{{Value: float64(m.Active)}} })},
		{"tarn_endpoint_calls_total", "Calls that ended, by status code.", "{call}", Counter, []string{"method", "code"}, ofMethods(func(m endpoint.Method) []Point {
			return by(func(endpoint.State) map[string]uint64 { return m.Codes })(endpoint.State{})
		})},
		{"tarn_endpoint_call_seconds_total", "What ended calls took, added up.", "s", Counter, []string{"method"}, ofMethods(func(m endpoint.Method) []Point { return []Point{{Value: m.Seconds}} })},
		{"tarn_endpoint_call_latency_seconds", "What calls took that ended in the last minute, up to 70 seconds.", "s", Level, []string{"method", "quantile"}, ofMethods(func(m endpoint.Method) []Point {
			if m.Minute.Ended == 0 {
				return nil
			}
			return []Point{{[]string{"0.5"}, m.Minute.P50}, {[]string{"0.99"}, m.Minute.P99}}
		})},
		{"tarn_endpoint_session_connected", "1 if the SMB session has a connection, by the address, the dialect and the protection of the last one.", "{connection}", Gauge,
			[]string{"server", "dialect", "protection"}, func(e endpoint.State) []Point {
				if s := e.Session; s != nil {
					return []Point{{[]string{s.Server, s.Dialect, s.Protection}, float64(e.Conns)}}
				}
				return nil
			}},
		{"tarn_endpoint_session_requests_in_flight", "Requests of the SMB session that the server has not answered.", "{request}", Gauge, nil, ofSession(func(s *endpoint.Session) uint64 { return uint64(s.InFlight) })},
		{"tarn_endpoint_session_credits", "Credits that the server has granted and no request uses.", "{credit}", Gauge, nil, ofSession(func(s *endpoint.Session) uint64 { return uint64(s.Credits) })},
		{"tarn_endpoint_session_waiting", "Calls that wait for credits.", "{call}", Gauge, nil, ofSession(func(s *endpoint.Session) uint64 { return uint64(s.Waiting) })},
		{"tarn_endpoint_session_received_bytes_total", "Bytes received from the server.", "By", Counter, nil, ofSession(func(s *endpoint.Session) uint64 { return s.Received })},
		{"tarn_endpoint_session_sent_bytes_total", "Bytes sent to the server.", "By", Counter, nil, ofSession(func(s *endpoint.Session) uint64 { return s.Sent })},
		{"tarn_endpoint_session_reconnects_total", "Connections that have replaced a lost one.", "{connection}", Counter, nil, ofSession(func(s *endpoint.Session) uint64 { return s.Reconnects })},
	}
}
