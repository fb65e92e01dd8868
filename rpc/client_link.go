package rpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/backoff"
	"github.com/tarn-go/tarn/rpc/internal/resolve"
	"google.golang.org/grpc/connectivity"
)

// balance says how calls are spread over a target's addresses.
type balance uint8

const (
	pickFirst  balance = iota // one connection, to the first address that answers
	roundRobin                // one to each, in turn
)

// resolveEvery bounds how often a name is looked up again.
const resolveEvery = 30 * time.Second

// link is a connection to one address, made again whenever it is lost
// (round_robin).
type link struct {
	addr   resolve.Addr
	state  connectivity.State
	conn   *clientConn
	err    error
	cancel context.CancelFunc
}

// activate starts connecting unless that is going on. cc.mu is held.
func (cc *ClientConn) activate() {
	if cc.active || cc.state == connectivity.Shutdown {
		return
	}
	cc.active = true
	cc.wg.Add(1)
	cc.setState(connectivity.Connecting)
	ctx, cancel := context.WithCancel(context.Background()) // ended by idle.stop
	cc.idle.start(cc, cancel)
	if cc.balance == roundRobin {
		go cc.runRoundRobin(ctx)
		return
	}
	go cc.runPickFirst(ctx)
}

// runPickFirst connects until it has a connection; then that goroutine is no
// longer needed, and the connection's own tells when it is lost. The client is
// idle then: the next call starts it again, as in grpc-go.
func (cc *ClientConn) runPickFirst(ctx context.Context) {
	defer cc.wg.Done()
	for failures := 0; ; {
		began := time.Now()
		c, err := cc.connectAny(ctx)
		if err == nil {
			cc.usePickFirst(c)
			return
		}
		if ctx.Err() != nil {
			break
		}
		failures++
		cc.mu.Lock()
		cc.lastErr = err
		if cc.state != connectivity.TransientFailure {
			cc.setState(connectivity.TransientFailure)
		}
		cc.mu.Unlock()
		if !cc.pause(ctx, began, failures) {
			break
		}
	}
	cc.mu.Lock()
	cc.rest()
	cc.mu.Unlock()
}

// rest makes the client idle. cc.mu is held.
func (cc *ClientConn) rest() {
	cc.active, cc.first = false, nil
	cc.idle.stop()
	cc.ready.Store(nil)
	cc.setState(connectivity.Idle)
}

func (cc *ClientConn) usePickFirst(c *clientConn) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.state == connectivity.Shutdown {
		return // Close ends the connection
	}
	select {
	case <-c.gone: // already
		cc.rest()
		return
	default:
	}
	cc.lastErr = nil
	cc.first = c
	cc.idle.settled()
	cc.ready.Store(&readySet{conns: []*clientConn{c}})
	cc.setState(connectivity.Ready)
}

// lost is told when no more calls can begin on c.
func (cc *ClientConn) lost(c *clientConn) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.first == c {
		cc.rest()
	}
}

// connectAny resolves the target and tries its addresses in order.
func (cc *ClientConn) connectAny(ctx context.Context) (*clientConn, error) {
	addrs, err := cc.lookup(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addrs {
		c, err := cc.connect(ctx, a)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// lookup resolves the target; with a dialer of the caller's, which may know
// names the system does not, a name that is not found is left to it.
func (cc *ClientConn) lookup(ctx context.Context) ([]resolve.Addr, error) {
	return cc.target.Resolve(ctx)
}

// pause waits before the next attempt: the back-off counts from the beginning
// of the last one.
func (cc *ClientConn) pause(ctx context.Context, began time.Time, failures int) bool {
	cc.mu.Lock()
	hurry := cc.hurry.next()
	cc.mu.Unlock()
	t := time.NewTimer(time.Until(began.Add(backoff.Delay(cc.opts.connect.Backoff, failures))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-hurry:
	case <-ctx.Done():
		return false
	}
	return true
}

// runRoundRobin resolves the target, keeps a link to each address, and resolves
// again, at most every resolveEvery, after a link has failed.
func (cc *ClientConn) runRoundRobin(ctx context.Context) {
	defer cc.wg.Done()
	again := make(chan struct{}, 1)
	for failures := 0; ; {
		began := time.Now()
		addrs, err := cc.lookup(ctx)
		if err == nil {
			failures = 0
			cc.setLinks(ctx, addrs, again)
			select {
			case <-again:
			case <-ctx.Done():
			}
			if ctx.Err() != nil || !cc.sleep(ctx, time.Until(began.Add(resolveEvery))) {
				break
			}
			continue
		}
		failures++
		cc.mu.Lock()
		cc.lastErr = err
		if len(cc.links) == 0 {
			cc.setState(connectivity.TransientFailure)
		}
		cc.mu.Unlock()
		if !cc.pause(ctx, began, failures) {
			break
		}
	}
	cc.mu.Lock()
	for _, l := range cc.links {
		l.cancel()
	}
	cc.links = nil
	cc.rest()
	cc.mu.Unlock()
}

func (cc *ClientConn) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// setLinks starts links to new addresses and ends those to old ones.
func (cc *ClientConn) setLinks(ctx context.Context, addrs []resolve.Addr, again chan<- struct{}) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	keep := cc.links[:0:0]
	for _, l := range cc.links {
		if slices.Contains(addrs, l.addr) {
			keep = append(keep, l)
			continue
		}
		l.cancel()
	}
	for _, a := range addrs {
		if slices.ContainsFunc(keep, func(l *link) bool { return l.addr == a }) {
			continue
		}
		l := &link{addr: a, state: connectivity.Connecting}
		var lctx context.Context
		lctx, l.cancel = context.WithCancel(ctx)
		keep = append(keep, l)
		cc.wg.Add(1)
		go cc.runLink(lctx, l, again)
	}
	cc.links = keep
	cc.aggregate()
}

// runLink keeps one link up until ctx ends.
func (cc *ClientConn) runLink(ctx context.Context, l *link, again chan<- struct{}) {
	defer cc.wg.Done()
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		c, err := cc.connect(ctx, l.addr)
		if err == nil {
			failures = 0
			cc.linkIs(l, connectivity.Ready, c, nil)
			select {
			case <-c.gone:
			case <-ctx.Done():
				c.h2c.Shutdown()
			}
			cc.linkIs(l, connectivity.Connecting, nil, nil)
		} else if ctx.Err() == nil {
			failures++
			cc.linkIs(l, connectivity.TransientFailure, nil, err)
		}
		select {
		case again <- struct{}{}:
		default:
		}
		if failures > 0 && !cc.pause(ctx, began, failures) {
			return
		}
	}
}

func (cc *ClientConn) linkIs(l *link, s connectivity.State, c *clientConn, err error) {
	cc.mu.Lock()
	l.state, l.conn, l.err = s, c, err
	if slices.Contains(cc.links, l) { // else it has been given up
		cc.aggregate()
	}
	cc.mu.Unlock()
}

// aggregate derives the client's state from its links. cc.mu is held.
func (cc *ClientConn) aggregate() {
	if cc.state == connectivity.Shutdown {
		return
	}
	set := &readySet{}
	state := connectivity.TransientFailure
	for _, l := range cc.links {
		switch l.state {
		case connectivity.Ready:
			set.conns = append(set.conns, l.conn)
		case connectivity.Connecting:
			state = connectivity.Connecting
		case connectivity.TransientFailure:
			cc.lastErr = l.err
		}
	}
	if len(set.conns) > 0 {
		cc.ready.Store(set)
		cc.setState(connectivity.Ready)
		return
	}
	cc.ready.Store(nil)
	cc.setState(state)
}

// dial opens a network connection.
func (cc *ClientConn) dial(ctx context.Context, a resolve.Addr) (net.Conn, error) {
	if cc.opts.dialer == nil {
		return new(net.Dialer).DialContext(ctx, a.Network, a.Address)
	}
	if a.Network == "unix" {
		return cc.opts.dialer(ctx, "unix:"+a.Address)
	}
	return cc.opts.dialer(ctx, a.Address)
}
