package h2

import "maps"

// Stats counts what happened on the connections of a [Maker] since it was made.
type Stats struct {
	Conns             int64 // connections that have not ended, now
	Waiting           int64 // Opens that wait because a limit on streams is reached, now
	ResetsSent        uint64
	ResetsReceived    uint64
	Refused           uint64          // streams of peers answered with REFUSED_STREAM; contained in ResetsSent
	GoAwaysSent       map[Code]uint64 // a code that RFC 9113 does not have counts as InternalError
	GoAwaysReceived   map[Code]uint64 // likewise
	KeepaliveTimeouts uint64
	// Ended counts the connections that this side ended because the peer broke the
	// protocol or crossed one of the Limits, by the reason that its ConnError gives.
	Ended map[string]uint64
}

// Stats returns what was counted so far. It is safe for concurrent use; the figures
// are not those of one instant.
func (m *Maker) Stats() Stats {
	n := m.counters
	n.mu.Lock()
	defer n.mu.Unlock()
	return Stats{
		Conns: n.conns.Load(), Waiting: n.waiting.Load(),
		ResetsSent: n.resetsSent.Load(), ResetsReceived: n.resetsRecv.Load(), Refused: n.refused.Load(),
		GoAwaysSent: maps.Clone(n.sent), GoAwaysReceived: maps.Clone(n.received),
		KeepaliveTimeouts: n.keepalive.Load(), Ended: maps.Clone(n.ended),
	}
}
