package h2

import "testing"

// TestLifetime: every event in every state. A connection's life only increases, ends in order, and Shutdown and GOAWAY change nothing
// once it is dead.
func TestLifetime(t *testing.T) {
	type cell struct {
		side side
		from life
		ev   lifeEvent
	}
	changes := map[cell]life{
		{client, alive, shutdownCalled}: draining, {client, alive, goAwayReceived}: draining, {client, alive, socketClosed}: dead,
		{client, announced, socketClosed}: dead, {client, draining, socketClosed}: dead, {client, dead, streamsFailed}: over,
		{server, alive, shutdownCalled}: announced, {server, alive, socketClosed}: dead,
		{server, announced, lastGoAwaySent}: draining, {server, announced, socketClosed}: dead,
		{server, draining, socketClosed}: dead, {server, dead, streamsFailed}: over,
	}
	for _, side := range []side{client, server} {
		for from := range lives {
			for ev := range lifeEvents {
				c := &Conn{side: side, life: from}
				want, changes := changes[cell{side, from, ev}]
				if !changes {
					want = from
				}
				if got := c.become(ev); got != changes || c.life != want {
					t.Errorf("side %d, life %d, event %d: %v, life %d, want %d", side, from, ev, got, c.life, want)
				}
			}
		}
	}
}
