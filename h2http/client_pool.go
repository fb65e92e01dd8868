package h2http

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// clientSettings are those of a Transport or an http.Transport.
type clientSettings struct {
	conf            *http.HTTP2Config
	own             Config
	maxHeader       int64
	idle            time.Duration
	headerTimeout   time.Duration
	continueTimeout time.Duration
	plainResponses  bool // no transparent decompression
	singleUse       bool // a connection serves one request
	maxConns        int  // of a host; 0: no limit
	// dial makes a connection; nil: an http.Transport does, and passes it to adopt.
	dial func(ctx context.Context, scheme, addr string) (net.Conn, error)
}

// clientPool is the connections of one transport.
type clientPool struct {
	clientSettings
	maker   *h2.Maker
	mem     *tarn.Pool
	strict  bool // the peer's limit on streams is waited for
	blocks  blockCache
	firsts  sync.Pool                 // of *firstOut
	signals sync.Pool                 // of chan struct{} that hold one, of calls
	last    atomic.Pointer[groupName] // what was asked for last; nil: not known

	once   sync.Once
	reread func() clientSettings // the settings as they are at the first use; nil: as they were given
	err    error                 // of these

	mu     sync.Mutex
	groups map[groupKey]*groupName
}

// groupKey names a host.
type groupKey struct{ scheme, addr string }

// groupName is a group and the key that a request's URL has for it.
type groupName struct {
	groupKey
	group *group
}

func newClientPool(s clientSettings) (*clientPool, error) {
	p := &clientPool{groups: make(map[groupKey]*groupName)}
	p.firsts.New = func() any { return new(firstOut) }
	p.signals.New = func() any { return make(chan struct{}, 1) }
	return p, p.configure(s)
}

// configure applies settings, before p is used.
func (p *clientPool) configure(s clientSettings) error {
	n := s.maxHeader
	if n <= 0 {
		n = defaultResponseHeader
	}
	cfg, err := s.own.h2Config(s.conf, n)
	if err != nil {
		return err
	}
	if cfg.Unread == 0 {
		cfg.Unread = unreadResponses
	}
	cfg.ExtendedConnect = h2.Deny // of servers
	cfg.ReadModeration = h2.Permit
	cfg.ProbeResets = h2.Permit
	cfg.IdleTimeout = s.idle
	maker, err := h2.Clients(cfg)
	if err != nil {
		return err
	}
	p.clientSettings, p.maker, p.mem = s, maker, s.own.Pool
	if p.mem == nil {
		p.mem = tarn.Shared()
	}
	p.strict = s.conf != nil && strictStreams(s.conf)
	return nil
}

// begin is called by each first use of p. The error is that of the settings.
func (p *clientPool) begin() error {
	p.once.Do(func() {
		if p.reread != nil {
			p.err = p.configure(p.reread())
		}
	})
	return p.err
}

// group returns the connections of a URL's host.
func (p *clientPool) group(scheme, host string) *group {
	as := groupKey{scheme, host}
	if n := p.last.Load(); n != nil && n.groupKey == as {
		return n.group
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.groups[as]
	if n == nil {
		n = p.name(as, p.groupAt(groupKey{scheme, authority(scheme, host)}))
	}
	p.last.Store(n)
	return n.group
}

// groupAt returns the connections of a host and port. p.mu is held.
func (p *clientPool) groupAt(key groupKey) *group {
	if n := p.groups[key]; n != nil {
		return n.group
	}
	g := &group{pool: p, groupKey: key}
	p.name(key, g)
	return g
}

// name makes g what is found as key. p.mu is held.
func (p *clientPool) name(key groupKey, g *group) *groupName {
	n := p.groups[key]
	if n == nil {
		n = &groupName{key, g}
		p.groups[key] = n
		g.names = append(g.names, key)
	}
	return n
}

// enlist returns the group of g's host: g, which is put back if it was removed after a request had got it, unless another has taken
// its place since. While g.mu is held, and while g has a connection or makes one, it is not removed again. g.mu is held.
func (p *clientPool) enlist(g *group) *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name(g.groupKey, g).group
}

// forget removes a group without connections. g.mu is held.
func (p *clientPool) forget(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range g.names {
		delete(p.groups, name)
	}
	g.names = nil
	if n := p.last.Load(); n != nil && n.group == g {
		p.last.Store(nil)
	}
}

// CloseIdleConnections closes the connections on which no request is under way.
func (p *clientPool) CloseIdleConnections() {
	for _, g := range p.all() {
		g.closeIdle()
	}
}

func (p *clientPool) all() []*group {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*group, 0, len(p.groups))
	for key, n := range p.groups {
		if key == n.group.groupKey { // once, of all its names
			all = append(all, n.group)
		}
	}
	return all
}

// adopt takes a connection that an http.Transport has dialled.
func (p *clientPool) adopt(scheme, addr string, nc net.Conn) http.RoundTripper {
	if err := p.begin(); err != nil {
		go nc.Close()
		return failing{err}
	}
	g := &group{pool: p, groupKey: groupKey{scheme, addr}}
	g.mu.Lock()
	for listed := p.enlist(g); listed != g; listed = p.enlist(g) {
		g.mu.Unlock()
		g = listed
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	// A connection that a request has found no other for stays although a stream is free now: else that request and the next ones would have
	// others made, again and again.
	wanted := g.full && (p.maxConns == 0 || len(g.conns) < p.maxConns)
	g.full = false
	var c *clientConn
	if wanted {
		c = g.mustWait()
	} else {
		c, _ = g.choose()
	}
	if c != nil {
		go nc.Close() // several requests have dialled at once
		return &adopted{g: g, c: c}
	}
	c = g.add(nc)
	c.announced = true
	return &adopted{g: g, c: c}
}

// adopted is what an http.Transport has of a connection it has dialled: the connection, and the group that
// serves its requests.
type adopted struct {
	g      *group
	c      *clientConn
	failed atomic.Bool // RoundTrip has returned another error than noConnError
}

// RoundTrip sends r on a connection of the group, or has the Transport dial another. If the connection has
// failed early one request gets that error: otherwise the Transport would dial without end. Then noConnError makes
// the Transport drop the connection.
func (a *adopted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.g.pool.roundTrip(r, a.g, notDialing)
	if errors.Is(err, noConnError{}) && !a.failed.Load() {
		if failure := a.c.earlyFailure(r.Context()); failure != nil {
			closeBody(r)
			err = failure
		}
	}
	if err != nil && !errors.Is(err, noConnError{}) {
		a.failed.Store(true)
	}
	return resp, err
}

// group is the connections of one host.
type group struct {
	pool *clientPool
	groupKey
	names []groupKey             // in the pool's map; under pool.mu
	host  atomic.Pointer[string] // the last that was found valid

	mu    sync.Mutex
	conns []*clientConn
	dial  *dial // that requests wait for; nil: none
	dials int   // that have not returned: dial, and those that a request has given up
	full  bool  // a request has found no stream free since the last connection was adopted
}

// dial is a connection being made, for which the requests that need it wait.
type dial struct {
	done chan struct{}
	conn *clientConn // once done
	err  error       // once done
}

// usable returns a connection that can open a stream now; nil: none. g.mu is held.
func (g *group) usable() *clientConn {
	for _, c := range g.conns {
		if c.h2.CanOpen() {
			return c
		}
	}
	return nil
}

// choose returns the connection for a request, and whether its limit on streams is to be waited for; nil: another may be made. g.mu is held.
func (g *group) choose() (c *clientConn, wait bool) {
	if c = g.usable(); c != nil {
		return c, false
	}
	if c = g.mustWait(); c != nil {
		return c, true
	}
	return g.usable(), false // the server may have permitted streams since
}

// mustWait returns the connection that requests wait for while none is usable; nil: another may be made. g.mu is held.
func (g *group) mustWait() *clientConn {
	g.removeSpent()
	if g.mayDial() {
		return nil
	}
	return g.waitable()
}

// removeSpent takes the connections out of the group that serve no further request: those that have failed, which would otherwise be
// waited for until they have been torn down, those that have used up their streams' numbers, and those whose server permits no stream any more and has answered all, which it ends.
// g.mu is held.
func (g *group) removeSpent() {
	g.conns = slices.DeleteFunc(g.conns, func(c *clientConn) bool {
		if err := c.h2.Unusable(); err != nil {
			if errors.Is(err, h2.ErrNoStreamIDs) { // it has not failed: it ends after its last response
				c.shutdown()
			}
			return true
		}
		spent := c.permitted.Load() && c.h2.StreamLimit() == 0 && c.h2.Streams() == 0
		if spent {
			c.shutdown()
		}
		return spent
	})
}

// mayDial reports whether another connection may be made while none is usable. g.mu is held.
func (g *group) mayDial() bool {
	if len(g.conns) == 0 {
		return true
	}
	if g.pool.strict || g.pool.maxConns > 0 && len(g.conns)+g.dials >= g.pool.maxConns && g.dial == nil {
		return false
	}
	for _, c := range g.conns {
		if c.permitsNone() {
			return false // another would not permit a stream, either
		}
	}
	return true
}

// waitable returns a connection whose limit on streams can be waited for: the one with
// the fewest; nil: none. g.mu is held.
func (g *group) waitable() *clientConn {
	var least *clientConn
	n := 0
	for _, c := range g.conns {
		if m := c.h2.Streams(); least == nil || m < n {
			least, n = c, m
		}
	}
	return least
}

// get returns a connection for a request. wait says whether its limit on streams is to
// be waited for; otherwise a stream could be opened just now.
func (g *group) get(ctx context.Context, trace *httptrace.ClientTrace, mode dialMode) (_ *clientConn, wait bool, _ error) {
	asked := false
	ask := func() {
		if trace != nil && trace.GetConn != nil && !asked {
			trace.GetConn(g.addr)
		}
		asked = true
	}
	var made *clientConn // the last that was waited for
	for {
		g.mu.Lock()
		c, mustWait := g.choose()
		if c != nil {
			asked = asked || c.announced // by the http.Transport
			c.announced = false
			g.mu.Unlock()
			ask()
			return c, mustWait, nil
		}
		if made != nil { // and is of no use, for which there may be a reason
			last := made
			made = nil
			g.mu.Unlock()
			if failure := last.earlyFailure(ctx); failure != nil {
				return nil, false, failure
			}
			continue
		}
		if mode == notDialing || g.pool.dial == nil {
			g.full = len(g.conns) > 0
			g.checkEmpty()
			g.mu.Unlock()
			return nil, false, noConnError{}
		}
		if err := ended(ctx); err != nil { // before GetConn, as http.Transport
			g.checkEmpty()
			g.mu.Unlock()
			return nil, false, err
		}
		if !asked { // before the dial, whose goroutine calls hooks of its own; another connection may be there afterwards
			g.mu.Unlock()
			ask()
			continue
		}
		if listed := g.pool.enlist(g); listed != g {
			g.mu.Unlock()
			g = listed
			continue
		}
		d := g.dial
		if d == nil {
			d = &dial{done: make(chan struct{})}
			g.dial = d
			g.dials++
			// The dial goes on when the request that started it ends: other requests wait for it, too.
			go g.connect(context.WithoutCancel(ctx), d)
		}
		g.mu.Unlock()
		select {
		case <-d.done:
			if d.err != nil {
				return nil, false, d.err
			}
			made = d.conn
		case <-ctx.Done():
			g.giveUp(d)
			return nil, false, context.Cause(ctx) // as http.Transport does while it dials; once there is a connection its HTTP/2 returns ctx.Err()
		}
	}
}

// giveUp is called when a request does not wait for d any longer: the next one dials anew, since d may be stuck. The connection that d
// makes nevertheless is used.
func (g *group) giveUp(d *dial) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if limit := g.pool.maxConns; g.dial == d && (limit == 0 || len(g.conns)+g.dials < limit) {
		g.dial = nil
	}
}

// maxDial bounds how long a connection may take to be made when no request waits for it.
const maxDial = 2 * time.Minute

// errDialExited is a dial's error whose function has ended the goroutine (runtime.Goexit, as testing.T.FailNow does).
var errDialExited = errors.New("h2http: the function that dials has ended its goroutine")

func (g *group) connect(ctx context.Context, d *dial) {
	ctx, cancel := context.WithTimeout(ctx, maxDial)
	defer cancel()
	var nc net.Conn
	err := errDialExited
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if d.err = err; err == nil {
			d.conn = g.add(nc)
		}
		if g.dials--; g.dial == d {
			g.dial = nil
		}
		g.checkEmpty()
		close(d.done)
	}()
	nc, err = g.pool.dial(ctx, g.scheme, g.addr)
}

// add makes nc a connection of the group, which the pool keeps. g.mu is held.
func (g *group) add(nc net.Conn) *clientConn {
	c := newClientConn(g, nc, nil)
	g.conns = append(g.conns, c)
	return c
}

// remove takes a connection, which accepts no more requests, out of the group.
func (g *group) remove(c *clientConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.conns, c); i >= 0 {
		g.conns = slices.Delete(g.conns, i, i+1)
	}
	g.checkEmpty()
}

// checkEmpty removes g from the pool when it has no connection. g.mu is held.
func (g *group) checkEmpty() {
	if len(g.conns) == 0 && g.dials == 0 {
		g.pool.forget(g)
	}
}

func (g *group) closeIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = slices.DeleteFunc(g.conns, func(c *clientConn) bool {
		if c.h2.Streams() > 0 {
			return false
		}
		c.shutdown() // a request may have opened a stream just now
		return true
	})
	g.checkEmpty()
}
