// Package connstate reports the HTTP/2 connections of a gRPC or HTTP endpoint to the debug page.
package connstate

import (
	"time"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/h2"
)

// Report fills in what m knows of its connections. It is safe for concurrent use.
func Report(m *h2.Maker, e *endpoint.State) {
	s := m.Stats()
	e.Waiting, e.ResetsSent, e.ResetsReceived, e.Refused, e.KeepaliveTimeouts = s.Waiting, s.ResetsSent, s.ResetsReceived, s.Refused, s.KeepaliveTimeouts
	e.GoAwaysSent, e.GoAwaysReceived, e.Ended = byName(s.GoAwaysSent), byName(s.GoAwaysReceived), s.Ended
	var list []h2.ConnState
	now := time.Now()
	list, e.Conns = m.Connections(endpoint.MaxConns)
	for _, c := range list {
		e.Streams += c.Streams
		e.Connections = append(e.Connections, endpoint.Conn{Peer: c.Remote.String(), Age: now.Sub(c.Since), Streams: c.Streams,
			Blocked: c.Blocked, SendWindow: c.SendWindow, RecvWindow: c.RecvWindow, StreamWindow: c.StreamWindow, Unread: c.Unread,
			RTT: c.RTT, Draining: c.Draining})
	}
}

func byName(codes map[h2.Code]uint64) map[string]uint64 {
	if codes == nil {
		return nil
	}
	out := make(map[string]uint64, len(codes))
	for c, n := range codes {
		out[c.String()] = n
	}
	return out
}
