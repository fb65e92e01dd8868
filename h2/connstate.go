package h2

import (
	"cmp"
	"net"
	"slices"
	"time"
)

// ConnState is what a connection is doing at one time.
type ConnState struct {
	Local, Remote net.Addr
	Since         time.Time     // when it began
	Streams       int           // open, or not yet released
	Blocked       int           // streams with a Write that waits for a window or for its turn
	SendWindow    int64         // bytes that this side may send on the connection
	RecvWindow    int64         // bytes that the peer may send on the connection
	StreamWindow  int           // bytes that the peer may send on a new stream
	Unread        int           // bytes received and not consumed
	RTT           time.Duration // what the acknowledgement of SETTINGS took; 0: not known
	Draining      bool          // no new streams: GOAWAY was sent or received
}

// Connections returns the state of the connections that have not ended, at most limit of
// them, those with the most streams first, and how many there are in all. It is safe for
// concurrent use, and looks at each connection once, under its lock.
func (m *Maker) Connections(limit int) (list []ConnState, all int) {
	n := m.counters
	n.mu.Lock()
	conns := make([]*Conn, 0, len(n.live))
	conns = append(conns, n.live...)
	n.mu.Unlock()
	list = make([]ConnState, len(conns))
	for i, c := range conns {
		list[i] = c.state()
	}
	slices.SortFunc(list, func(a, b ConnState) int {
		return cmp.Or(cmp.Compare(b.Streams, a.Streams), a.Since.Compare(b.Since))
	})
	return slices.Clip(list[:min(len(list), limit)]), len(conns)
}

func (c *Conn) state() ConnState {
	s := ConnState{Local: c.nc.LocalAddr(), Remote: c.nc.RemoteAddr(), Since: c.since}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Streams, s.SendWindow = c.inUse, c.peer.conn
	s.RecvWindow, s.StreamWindow, s.Unread, s.RTT = c.inflow.known()
	s.Draining = !c.lifetime.is(alive) || c.goAway != nil
	for st := range c.streams.all() {
		if st.wait != nil && st.wait.active {
			s.Blocked++
		}
	}
	return s
}
