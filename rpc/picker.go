package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// pickers holds the balancer's current picker.
type pickers struct {
	picker balancer.Picker // nil while the client is IDLE or resolving

	mu       sync.Mutex
	replaced bool
	changed  signal // when another replaces it
}

func newPickers(p balancer.Picker) *pickers { return &pickers{picker: p} }

// next is closed when another picker replaces p's.
func (p *pickers) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changed.next()
	if p.replaced {
		p.changed.notify()
	}
	return c
}

// replace closes what next has returned and will return.
func (p *pickers) replace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaced = true
	p.changed.notify()
}

// setPicker makes waiting calls pick again.
func (cc *ClientConn) setPicker(p balancer.Picker) {
	next := newPickers(p)
	for {
		old := cc.picker.Load()
		if _, closed := old.picker.(closedPicker); closed {
			return
		}
		if cc.picker.CompareAndSwap(old, next) {
			old.replace()
			return
		}
	}
}

// closedPicker ends the calls of a closed client.
type closedPicker struct{}

// Pick implements balancer.Picker.
func (closedPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, ErrClientConnClosing
}

// errorPicker ends every call with an error, or makes it wait.
type errorPicker struct{ err error }

// Pick implements balancer.Picker.
func (p errorPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, p.err
}

// pick is a balancer's choice for one attempt.
type pick struct {
	conn *clientConn
	done func(balancer.DoneInfo) // may be nil; called once, when the attempt has ended
	md   metadata.MD             // for the request's header
	how  pickKind
}

type pickKind uint8

const (
	atOnce  pickKind = iota
	delayed          // the call has waited for a picker
	dropped          // the balancer has ended the call: it is not tried again
)

// pick asks the balancer for a connection, and waits while it has none. Without waitForReady it fails with
// UNAVAILABLE while the target cannot be reached.
func (cc *ClientConn) pick(ctx context.Context, method string, ci *callInfo) (pick, error) {
	p := cc.picker.Load()
	var last error
	if p.picker != nil {
		if r, err := p.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx}); err == nil {
			if c := connOf(&r); c != nil {
				return pick{conn: c, done: r.Done, md: r.Metadata}, nil
			}
		} else if v, over := pickError(err, ci); over {
			return v.of(err)
		} else {
			last = err
		}
	}
	return cc.pickSlow(ctx, method, ci, p, last)
}

// connOf returns the connection of a pick; nil when it has ended: then the pick is invalid, and another
// picker follows.
func connOf(r *balancer.PickResult) *clientConn {
	if s, ok := r.SubConn.(*subConn); ok {
		if c := s.conn.Load(); c != nil {
			return c
		}
	}
	if r.Done != nil {
		r.Done(balancer.DoneInfo{})
	}
	return nil
}

// pickSlow waits for a picker after seen, which has answered with last. If the call's time ends first, its error contains the last reason
// why it waited.
func (cc *ClientConn) pickSlow(ctx context.Context, method string, ci *callInfo, seen *pickers, last error) (pick, error) {
	defer cc.names.idle.waiting()()
	if errors.Is(last, balancer.ErrNoSubConnAvailable) {
		last = nil
	}
	for {
		if seen.picker == nil {
			if _, _, err := cc.names.activate(cc); err != nil {
				return pick{}, err
			}
		}
		select {
		case <-seen.next():
		case <-ctx.Done():
			return pick{}, waited(ctx, last)
		}
		seen = cc.picker.Load()
		if seen.picker == nil {
			continue
		}
		r, err := seen.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx})
		if err == nil {
			if c := connOf(&r); c != nil {
				return pick{conn: c, done: r.Done, md: r.Metadata, how: delayed}, nil
			}
			continue
		}
		if v, over := pickError(err, ci); over {
			return v.of(err)
		}
		if !errors.Is(err, balancer.ErrNoSubConnAvailable) {
			last = err
		}
	}
}

// pickVerdict says what a picker's error means for a call.
type pickVerdict uint8

const (
	pickDrops pickVerdict = iota // it becomes the call's status
	pickFails                    // UNAVAILABLE
)

// pickError decides on a picker's error; false when the call waits for the next
// picker.
func pickError(err error, ci *callInfo) (pickVerdict, bool) {
	if err == balancer.ErrNoSubConnAvailable {
		return 0, false
	}
	if _, ok := status.FromError(err); ok {
		return pickDrops, true
	}
	return pickFails, !ci.waitForReady
}

func (v pickVerdict) of(err error) (pick, error) {
	if v == pickFails {
		return pick{}, status.Error(codes.Unavailable, err.Error())
	}
	if restricted(status.Code(err)) {
		err = status.Errorf(codes.Internal, "received picker error with illegal status: %v", err)
	}
	return pick{how: dropped}, err
}

// waited is the error of a call whose time ended before there was a connection.
func waited(ctx context.Context, last error) error {
	st := status.FromContextError(ctx.Err())
	if last == nil {
		return status.Errorf(st.Code(), "%s while waiting for connections to become ready", st.Message())
	}
	return status.Errorf(st.Code(), "%s while waiting for connections to become ready: latest balancer error: %v", st.Message(), last)
}

// connection picks one for the next attempt and checks the conditions that depend on it. A pick that was not used, of a stream whose opening
// waited for the request, is used if its connection still can be: a balancer that was asked twice for each stream would send half of them nowhere.
func (c *call) connection() (*clientConn, error) {
	c.seen.set(connecting)
	if p := &c.picked; p.conn == nil || p.conn.usable() != nil {
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
	if c.only != nil {
		c.picked = pick{conn: c.only}
		return c.only.usable()
	}
	p, err := c.cc.pick(c.tagged, c.method, &c.info)
	if err != nil {
		c.retry.dropped = p.how == dropped
		return err
	}
	c.picked = p
	c.waited = c.waited || p.how == delayed
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
		info.Trailer = t.trailerMD()
		info.BytesSent = t.reached()
		info.BytesReceived = info.Trailer != nil || t.headerMD() != nil // most attempts have a trailer: no header is made for them
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

// usable returns an error when no call can begin on c.
func (c *clientConn) usable() error {
	if c.gone.Load() {
		return status.Error(codes.Unavailable, fmt.Sprintf("rpc: the connection to %v has ended", c.peer.Addr))
	}
	return nil
}
