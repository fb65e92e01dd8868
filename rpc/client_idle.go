package rpc

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
)

// idleness makes a client IDLE in which no call of the application has begun, waited or had a stream for a while; the
// client's own calls, such as health checks, do not count. Its fields except calls and waits are guarded by
// names.mu.
type idleness struct {
	timer *time.Timer
	seen  uint64        // calls at the last check
	open  bool          // streams, and calls that waited, at the last check
	calls atomic.Uint64 // the application's, begun so far
	waits atomic.Int32  // by calls, for a resolver, a picker, their next attempt
}

// waiting keeps the client from IDLE until the returned function is called. A call calls it that has no stream
// because it waits; one that waits for a stream is counted by its connection's h2.Maker.
func (i *idleness) waiting() (over func()) {
	i.waits.Add(1)
	return func() { i.waits.Add(-1) }
}

// start starts the timer of a client that has just left IDLE. names.mu is held.
func (i *idleness) start(cc *ClientConn) {
	i.stop()
	if d := cc.opts.idleTimeout; d > 0 {
		i.timer = time.AfterFunc(d, func() { i.check(cc, d) })
	}
}

// stop stops the timer. names.mu is held.
func (i *idleness) stop() {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

func (i *idleness) check(cc *ClientConn, d time.Duration) {
	cc.names.mu.Lock()
	act := i.due(cc, d)
	cc.names.mu.Unlock()
	if act != nil {
		act.close()
		cc.conns.wg.Done()
	}
}

// due drops the activity of a client in which no call has begun since the last check, and which has no stream and
// no call that waits, now as at the last check: what it had then may have ended since. names.mu is held.
func (i *idleness) due(cc *ClientConn, d time.Duration) *activity {
	n := &cc.names
	if i.timer == nil || n.active == nil {
		return nil
	}
	open := int(i.waits.Load()) + int(cc.maker.Stats().Waiting) + cc.conns.streams()
	calls := i.calls.Load()
	busy := calls != i.seen || i.open || open > 0
	i.seen, i.open = calls, open > 0
	if busy {
		i.timer.Reset(d)
		return nil
	}
	if !cc.conns.begin() { // Close waits until act is closed
		return nil
	}
	act := n.active
	n.active = nil
	i.timer = nil
	n.config.Store(nil)
	cc.setPicker(nil)
	cc.state.set(cc, connectivity.Idle)
	return act
}
