package balance

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

// CallBegins counts a call of the application's, which keeps the Channel from IDLE.
func (ch *Channel) CallBegins() { ch.names.idle.calls.Add(1) }

// CallWaits keeps the Channel from IDLE until the returned function is called. A call calls it that has no stream because it waits, and does
// not wait for a stream: those are counted by Owner.Streams.
func (ch *Channel) CallWaits() (over func()) {
	i := &ch.names.idle
	i.waits.Add(1)
	return func() { i.waits.Add(-1) }
}

// start starts the timer of a client that has just left IDLE. names.mu is held.
func (i *idleness) start(ch *Channel, d time.Duration) {
	i.stop()
	if d > 0 {
		i.timer = time.AfterFunc(d, func() { i.check(ch, d) })
	}
}

// stop stops the timer. names.mu is held.
func (i *idleness) stop() {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

func (i *idleness) check(ch *Channel, d time.Duration) {
	ch.names.mu.Lock()
	act := i.due(ch, d)
	ch.names.mu.Unlock()
	if act != nil {
		act.close()
		ch.owner.Done()
	}
}

// due drops the activity of a client in which no call has begun since the last check, and which has no stream and
// no call that waits, now as at the last check: what it had then may have ended since. names.mu is held.
func (i *idleness) due(ch *Channel, d time.Duration) *activity {
	n := &ch.names
	if i.timer == nil || n.active == nil {
		return nil
	}
	open := int(i.waits.Load()) + ch.owner.Streams()
	calls := i.calls.Load()
	busy := calls != i.seen || i.open || open > 0
	i.seen, i.open = calls, open > 0
	if busy {
		i.timer.Reset(d)
		return nil
	}
	if !ch.owner.Begin() { // Close of the owner waits until act is closed
		return nil
	}
	act := n.active
	n.active = nil
	i.timer = nil
	n.config.Store(nil)
	ch.setPicker(nil)
	ch.setState(connectivity.Idle)
	return act
}
