package rpc

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
)

// idleness makes a client IDLE in which no call has begun for a while and which has no stream open. Its fields
// except calls are guarded by ClientConn.mu.
type idleness struct {
	timer *time.Timer
	seen  uint64
	calls atomic.Uint64 // begun so far
}

// start starts the timer of a client that has just left IDLE. cc.mu is held.
func (i *idleness) start(cc *ClientConn) {
	i.stop()
	if d := cc.opts.idleTimeout; d > 0 {
		i.timer = time.AfterFunc(d, func() { i.check(cc, d) })
	}
}

// stop stops the timer. cc.mu is held.
func (i *idleness) stop() {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

func (i *idleness) check(cc *ClientConn, d time.Duration) {
	cc.mu.Lock()
	act := i.due(cc, d)
	cc.mu.Unlock()
	if act != nil {
		act.close()
		cc.wg.Done()
	}
}

// due drops the activity of a client in which no call has begun since the last check and which has no stream
// open now. cc.mu is held.
func (i *idleness) due(cc *ClientConn, d time.Duration) *activity {
	if i.timer == nil || cc.active == nil {
		return nil
	}
	live := 0
	for c := range cc.conns {
		live += max(0, c.h2c.Streams()-int(c.own.Load()))
	}
	if calls := i.calls.Load(); calls != i.seen || live > 0 {
		i.seen = calls
		i.timer.Reset(d)
		return nil
	}
	act := cc.active
	cc.wg.Add(1) // Close waits until act is closed
	cc.active = nil
	i.timer = nil
	cc.config.Store(nil)
	cc.setPicker(nil)
	cc.setState(connectivity.Idle)
	return act
}
