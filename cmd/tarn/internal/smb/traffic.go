package smb

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
)

// traffic counts the bytes and round trips of connections, for -stats.
type traffic struct {
	sent, received atomic.Int64 // bytes
	// turns counts round trips: how often something was sent after something was received on one connection.
	// Requests that are sent together count once.
	turns       atomic.Int64
	connections atomic.Int64
}

// dial makes a connection that is counted. Package smb reads and writes it with fewer system
// calls when it is not: -stats is not for measuring time.
func (t *traffic) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t.connections.Add(1)
	counted := &countedConn{Conn: c, t: t}
	counted.received.Store(true)
	return counted, nil
}

type countedConn struct {
	net.Conn
	t        *traffic
	received atomic.Bool // something was received since something was sent
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.t.received.Add(int64(n))
		c.received.Store(true)
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.received.Swap(false) {
		c.t.turns.Add(1)
	}
	n, err := c.Conn.Write(p)
	c.t.sent.Add(int64(n))
	return n, err
}

// reportTraffic writes what -stats asks for.
func (a *app) reportTraffic() {
	if !a.opts.stats {
		return
	}
	t := &a.traffic
	fmt.Fprintf(a.std.Err, "%s sent, %s received, %s, %s\n",
		size(t.sent.Load()), size(t.received.Load()), counted(t.turns.Load(), "round trip"), counted(t.connections.Load(), "connection"))
}

// counted is a number and its noun: "1 connection", "2 connections".
func counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
