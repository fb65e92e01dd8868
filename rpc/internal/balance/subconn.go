package balance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/backoff"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/signal"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
)

// SubConn is a connection to one of several addresses, made when its balancer asks for it: a
// balancer.SubConn. Its states are gRPC's (connectivity-semantics-and-api.md): a lost connection makes it
// IDLE, and the balancer connects it again.
type SubConn struct {
	balancer.SubConn // grpc-go's marker; every method is overridden
	act              *activity
	child            *child
	opts             balancer.NewSubConnOptions

	conn atomic.Pointer[Conn] // set while READY: used by picks

	mu       sync.Mutex // taken before names.mu
	addrs    []resolver.Address
	state    connectivity.State
	stop     context.CancelFunc // ends the attempt to connect, or the health check; nil: neither is under way
	held     Conn               // the current connection, healthy or not; nil: none
	at       resolver.Address   // the address of held
	failures int                // failed attempts to connect, in a row
	leaving  bool               // Shutdown has been called
	reset    signal.Signal      // of resetBackoff

	entity *entity.Subchannel // in channelz; nil: not listed

	health    *healthWatch // the balancer's listener; nil without one
	producers map[balancer.ProducerBuilder]*producer
}

func (act *activity) newSubConn(ch *child, addrs []resolver.Address, opts balancer.NewSubConnOptions) (*SubConn, error) {
	s := &SubConn{act: act, child: ch, opts: opts, addrs: slices.Clone(addrs)}
	n := &act.ch.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active != act {
		return nil, errInactive
	}
	put(&act.subs, s)
	if act.pace == nil && len(act.subs) > pacedFrom {
		act.pace = new(pacer)
	}
	s.entity = act.ch.entity.AddSubchannel(addrs[0].Addr)
	return s, nil
}

// CredsBundle is the balancer's bundle for the SubConn's connections; nil: it has given none.
func (s *SubConn) CredsBundle() credentials.Bundle { return s.opts.CredsBundle }

// Entity is the SubConn in channelz; nil: it is not listed.
func (s *SubConn) Entity() *entity.Subchannel { return s.entity }

// String names the SubConn in balancers' logs.
func (s *SubConn) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.addrs) == 0 {
		return "SubConn()"
	}
	return fmt.Sprintf("SubConn(%s)", s.addrs[0].Addr)
}

// setState sets the state and reports it to the balancer. s.mu is held.
func (s *SubConn) setState(state connectivity.State, err error) {
	if s.state == state || s.state == connectivity.Shutdown || s.leaving && state != connectivity.Shutdown {
		return
	}
	s.state = state
	s.entity.SetState(state, err)
	if len(s.addrs) > 0 {
		logger.Info("client of", s.act.ch.name+",", s.addrs[0].Addr+":", state)
	}
	if state == connectivity.Ready {
		c := s.held
		s.conn.Store(&c)
	} else {
		s.conn.Store(nil)
	}
	s.health.end()
	s.health = nil
	producers := s.producers
	if s.act.policy.run(func() {
		endAll(producers)
		s.child.deliver(s, balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
	}) {
		s.producers = nil // otherwise shutdown, which follows, ends them
	}
}

// Connect implements balancer.SubConn. It does nothing unless the SubConn is IDLE.
func (s *SubConn) Connect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == connectivity.Idle {
		s.start()
	}
}

// start begins an attempt. s.mu is held.
func (s *SubConn) start() {
	if len(s.addrs) == 0 || !s.act.ch.owner.Begin() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.setState(connectivity.Connecting, nil)
	ch, addrs := s.act.ch, s.addrs
	ch.names.mu.Lock()
	pace := s.act.pace
	ch.names.mu.Unlock()
	pace.begin(paced{ctx: ctx, run: func(leave func()) { s.run(ctx, addrs, leave) }, dropped: ch.owner.Done})
}

// run tries the addresses, one after another. After a failure it waits for the time of the next attempt,
// which the balancer begins. It calls leave when the attempt is over.
func (s *SubConn) run(ctx context.Context, addrs []resolver.Address, leave func()) {
	set := &s.act.set
	defer s.act.ch.owner.Done()
	began := time.Now()
	s.mu.Lock()
	delay := backoff.Delay(set.Connect, s.failures+1)
	s.mu.Unlock()
	c, addr, err := s.tryAll(ctx, addrs, max(set.MinConnect, delay))
	leave()
	if err == nil {
		s.connected(ctx, c, addr)
		return
	}
	s.act.resolveNow()
	s.mu.Lock()
	if ctx.Err() != nil { // shut down, or the addresses have changed
		s.mu.Unlock()
		return
	}
	set.Metrics.notConnected()
	s.setState(connectivity.TransientFailure, err)
	reset := s.reset.Next()
	s.mu.Unlock()
	t := time.NewTimer(time.Until(began.Add(delay)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-reset:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		select {
		case <-reset: // resetBackoff has set the count
		default:
			s.failures++
		}
		s.setState(connectivity.Idle, err)
	}
}

// tryAll returns the first connection that can be made. The error is that of the first address.
func (s *SubConn) tryAll(ctx context.Context, addrs []resolver.Address, limit time.Duration) (Conn, resolver.Address, error) {
	wanted := ctx
	ctx, cancel := context.WithTimeout(wanted, limit)
	defer cancel()
	var first error
	for i := range addrs {
		c, err := s.act.ch.owner.Connect(ctx, wanted.Done(), s, &addrs[i])
		if err == nil {
			return c, addrs[i], nil
		}
		if wanted.Err() == nil {
			logger.Warning("client of", s.act.ch.name+": connecting to", addrs[i].Addr+":", err)
		}
		if first == nil {
			first = fmt.Errorf("connection error: desc = %q", err.Error())
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, resolver.Address{}, first
}

// connected starts the use of a new connection.
func (s *SubConn) connected(ctx context.Context, c Conn, addr resolver.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		c.Shutdown()
		return
	}
	s.failures = 0
	s.act.set.Metrics.connected(c.Peer().AuthInfo)
	if c.Usable() != nil { // already
		s.act.set.Metrics.disconnected(c.Peer().AuthInfo, c.DisconnectError())
		s.act.resolveNow()
		s.setState(connectivity.Idle, nil)
		return
	}
	s.held, s.at = c, addr
	if name := s.checkedService(); name != nil && s.opts.HealthCheckEnabled {
		s.checkHealth(ctx, c, *name)
		return
	}
	s.cancel() // its context takes 450 bytes
	s.setState(connectivity.Ready, nil)
}

// cancel ends the attempt to connect, or the health check. s.mu is held.
func (s *SubConn) cancel() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Lost records that no more calls can begin on c, and why. The balancer may connect again.
func (s *SubConn) Lost(c Conn, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != c {
		return
	}
	s.act.set.Metrics.disconnected(c.Peer().AuthInfo, c.DisconnectError())
	logger.Info("client of", s.act.ch.name+": the connection to", s.at.Addr, "has ended:", why)
	s.held = nil
	s.conn.Store(nil)
	s.cancel()
	s.act.resolveNow()
	s.setState(connectivity.Idle, nil)
}

// UpdateAddresses implements balancer.SubConn: a connection to one of addrs is kept, any other is replaced.
func (s *SubConn) UpdateAddresses(addrs []resolver.Address) {
	addrs = slices.Clone(addrs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving || slices.EqualFunc(s.addrs, addrs, sameAddress) {
		return
	}
	s.addrs = addrs
	switch s.state {
	case connectivity.Shutdown, connectivity.TransientFailure, connectivity.Idle:
		return
	}
	if s.held != nil {
		if slices.ContainsFunc(addrs, func(a resolver.Address) bool { return sameAddress(a, s.at) }) {
			return
		}
		s.drop(unknownDisconnect)
	}
	s.cancel()
	if len(addrs) == 0 {
		s.setState(connectivity.Idle, nil)
		return
	}
	s.start()
}

// drop lets the connection's running calls end and begins no more. why is for metrics. s.mu is held.
func (s *SubConn) drop(why string) {
	c := s.held
	s.act.set.Metrics.disconnected(c.Peer().AuthInfo, why)
	s.held = nil
	s.conn.Store(nil)
	c.Shutdown()
}

// sameAddress compares what a connection depends on.
func sameAddress(a, b resolver.Address) bool {
	return a.Addr == b.Addr && a.ServerName == b.ServerName && a.Attributes.Equal(b.Attributes)
}

// Shutdown implements balancer.SubConn. Running calls continue. A READY SubConn is shut down when the balancer returns: its picker
// still picks it until there is another, and a call would have to wait for that.
func (s *SubConn) Shutdown() {
	n := &s.act.ch.names
	n.mu.Lock()
	delete(s.act.subs, s)
	n.mu.Unlock()
	s.mu.Lock()
	s.leaving = true
	ready := s.state == connectivity.Ready
	s.mu.Unlock()
	if !ready || !s.act.policy.run(s.shutdown) {
		s.shutdown()
	}
}

func (s *SubConn) shutdown() {
	// The balancer's queue, in which other changes end producers, may have been closed. They are ended without the lock,
	// because their builders' functions may use the SubConn.
	endAll(s.shutDown())
}

// shutDown makes the state Shutdown and returns the producers to be ended.
func (s *SubConn) shutDown() map[balancer.ProducerBuilder]*producer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == connectivity.Shutdown {
		return nil
	}
	producers := s.producers
	s.producers = nil
	if s.held != nil {
		s.drop(subchannelShutdown)
	}
	s.cancel()
	s.setState(connectivity.Shutdown, nil)
	s.entity.Remove()
	return producers
}

func (s *SubConn) resetBackoff() {
	s.mu.Lock()
	s.failures = 0
	s.reset.Notify()
	s.mu.Unlock()
}
