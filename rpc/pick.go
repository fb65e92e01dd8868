package rpc

import (
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
)

// pick is a balancer's choice for one attempt.
type pick struct {
	conn *clientConn
	done func(balancer.DoneInfo) // may be nil; called once, when the attempt has ended
	md   metadata.MD             // for the request's header
}

// patience is the call's, for its balancer.
func (ci *callInfo) patience() balance.Patience {
	if ci.waitForReady {
		return balance.WaitForReady
	}
	return balance.FailFast
}

// connection picks one for the next attempt and checks the conditions that depend on it. A pick that was not used, of a stream whose opening
// waited for the request, is used if its connection still can be: a balancer that was asked twice for each stream would send half of them nowhere.
func (c *call) connection() (*clientConn, error) {
	c.seen.set(connecting)
	if p := &c.picked; p.conn == nil || p.conn.Usable() != nil {
		if err := c.pickAnother(); err != nil {
			return nil, err
		}
	}
	p := c.picked
	if c.waited && !c.begun.IsZero() {
		c.waited = false
		for _, h := range c.cc.opts.stats {
			h.HandleRPC(c.tagged, &stats.PickerUpdated{})
		}
	}
	if err := c.checkAuthority(p.conn); err != nil {
		c.pickEnded(balancer.DoneInfo{Err: err})
		return nil, err
	}
	return p.conn, nil
}

// pickAnother replaces c.picked.
func (c *call) pickAnother() error {
	c.pickEnded(balancer.DoneInfo{}) // of a pick that was not used
	p, err := c.cc.channel.Pick(c.tagged, c.method, c.info.patience())
	if err != nil {
		c.retry.dropped = p.How == balance.Dropped
		return err
	}
	c.picked = pick{conn: p.Conn.(*clientConn), done: p.Done, md: p.MD}
	c.waited = c.waited || p.How == balance.Delayed
	return nil
}

// attemptEnded reports the end of an attempt to the balancer. t is nil if it was not opened.
func (c *call) attemptEnded(t outcome, err error) {
	if a, ok := t.(*grpcAttempt); ok && a.st != nil {
		a.conn.counted(a, err)
	}
	if c.picked.done == nil {
		c.picked = pick{} // the next attempt needs another
		return
	}
	info := balancer.DoneInfo{Err: err}
	if t != nil {
		info.BytesSent = t.reached()
		info.Trailer, info.BytesReceived = t.received()
		info.ServerLoad = serverLoad(info.Trailer)
	}
	c.pickEnded(info)
}

func (c *call) pickEnded(info balancer.DoneInfo) {
	done := c.picked.done
	c.picked = pick{}
	if done != nil {
		done(info)
	}
}
