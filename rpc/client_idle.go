package rpc

import (
	"context"
	"sync/atomic"
	"time"
)

// idleness closes the connections of a client nobody has called for a while.
// Its fields but calls are under ClientConn.mu.
type idleness struct {
	timer  *time.Timer
	cancel context.CancelFunc
	seen   uint64
	calls  atomic.Uint64 // begun so far
}

// start begins to watch a client that has just become active; cancel ends its
// connections. cc.mu is held.
func (i *idleness) start(cc *ClientConn, cancel context.CancelFunc) {
	i.cancel = cancel
	if d := cc.opts.idleTimeout; d > 0 {
		i.timer = time.AfterFunc(d, func() { i.check(cc, d) })
	}
}

// stop ends the watch and what it watched. cc.mu is held.
func (i *idleness) stop() {
	i.settled()
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

// settled says that nothing is left to cancel: the context may go. cc.mu is held.
func (i *idleness) settled() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

func (i *idleness) check(cc *ClientConn, d time.Duration) {
	cc.mu.Lock()
	idle := i.due(cc, d)
	cc.mu.Unlock()
	if idle != nil {
		idle.leave()
		idle.h2c.Shutdown()
	}
}

// due ends the activity of a client that has had no call since the last time. It
// returns pick_first's connection, to be ended; links end by their context.
// cc.mu is held.
func (i *idleness) due(cc *ClientConn, d time.Duration) *clientConn {
	if i.timer == nil {
		return nil
	}
	live := 0
	if set := cc.ready.Load(); set != nil {
		for _, c := range set.conns {
			live += c.h2c.Streams()
		}
	}
	if calls := i.calls.Load(); calls != i.seen || live > 0 {
		i.seen = calls
		i.timer.Reset(d)
		return nil
	}
	c := cc.first
	i.stop()
	return c
}
