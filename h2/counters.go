package h2

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

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

// enlist has Connections see c, from when it runs until report.
func (n *counters) enlist(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.place = len(n.live)
	n.live = append(n.live, c)
}

func (n *counters) dismiss(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := len(n.live) - 1
	if c.place > last || n.live[c.place] != c {
		return
	}
	other := n.live[last]
	n.live[c.place], n.live[last] = other, nil
	other.place = c.place
	if n.live = n.live[:last]; last < cap(n.live)/4 {
		n.live = slices.Clone(n.live)
	}
}
