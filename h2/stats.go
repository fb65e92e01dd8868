package h2

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
)

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

// counters is what Stats is read from: one for all connections of a Maker.
type counters struct {
	conns, waiting         atomic.Int64
	resetsSent, resetsRecv atomic.Uint64
	refused, keepalive     atomic.Uint64
	headers                atomic.Int64 // bytes that Limits.AllHeaderMemory bounds

	mu       sync.Mutex // of the maps, which change when connections begin and end
	sent     map[Code]uint64
	received map[Code]uint64
	ended    map[string]uint64
	live     []*Conn // that run; in Conn.place
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

func count[K comparable](n *counters, m *map[K]uint64, k K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[k]++
}

// countGoAway counts a GOAWAY in one of n's maps. Codes that RFC 9113 does not have count as InternalError, as which its section 7
// lets an endpoint treat them: a peer can send any number of them, and the maps live as long as the Maker.
func (n *counters) countGoAway(m *map[Code]uint64, code Code) {
	if code >= Code(len(codeNames)) {
		code = InternalError
	}
	count(n, m, code)
}

// noKeepaliveAnswer is the reason of a connection's end when a PING was not answered.
const noKeepaliveAnswer = "no answer within the keepalive timeout"

// report counts and logs the end of the connection because of why.
func (c *Conn) report(why error) {
	c.counters.conns.Add(-1)
	c.counters.dismiss(c)
	var ce *ConnError
	if !errors.As(why, &ce) || ce.Fault == Local {
		return
	}
	message := "h2: the peer ended the connection"
	switch {
	case ce.Reason == noKeepaliveAnswer:
		c.counters.keepalive.Add(1)
		message = "h2: connection ended: the peer does not answer"
	case ce.Fault == Peer:
		count(c.counters, &c.counters.ended, ce.Reason)
		message = "h2: connection ended: the peer broke the protocol or a limit"
	}
	c.log(slog.LevelWarn, message, ce.Code, ce.Reason)
}

// log writes to the configured logger, if there is one. c.mu is not held.
func (c *Conn) log(level slog.Level, message string, code Code, reason string) {
	l := c.cfg.Log
	if l == nil {
		return
	}
	side := "client"
	if c.side == server {
		side = "server"
	}
	l.LogAttrs(context.Background(), level, message, slog.String("side", side),
		slog.String("peer", c.nc.RemoteAddr().String()), slog.String("code", code.String()), slog.String("reason", reason))
}
