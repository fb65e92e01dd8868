package rpc

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/connstate"
	"github.com/tarn-go/tarn/internal/latency"
	"github.com/tarn-go/tarn/internal/monotonic"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ObserveCalls makes [Server.Endpoint] count calls by method and list what running calls wait for, which the
// debug page shows. It takes about a quarter of a microsecond of processor time and one allocation a call
// (BenchmarkObserve).
func ObserveCalls() ServerOption {
	return serverOption(func(o *serverOptions) { o.observe = new(observer) })
}

// WithObserveCalls is [ObserveCalls] for a client.
func WithObserveCalls() DialOption {
	return dialOption(func(o *dialOptions) { o.observe = new(observer) })
}

// observer counts the calls of a server or a client. A nil *observer counts nothing.
type observer struct {
	mu      sync.Mutex
	methods map[string]*observedMethod
	live    map[*observed]struct{}
}

// otherMethods stands for the methods beyond maxRoutes, of which a proxy may see any number, and for those that are not UTF-8.
const otherMethods = "(others)"

// doing is what a running call does or waits for.
type doing uint32

const (
	working    doing = iota // waits for nothing: a handler or the application runs
	resolving               // for the resolver's first answer
	connecting              // for a connection
	opening                 // for the peer to permit a stream, or for its window
	sending                 // for the peer's window, or for the network
	receiving               // for the peer's next message, or its status
	pausing                 // for the time of its next attempt
)

// role is the side whose calls an observer counts.
type role uint8

const (
	ofServer role = iota
	ofClient
)

// waits describes what a call waits for, for the page.
func (d doing) waits(r role) string {
	switch d {
	case resolving:
		return "the resolver"
	case connecting:
		return "a connection"
	case pausing:
		return "its next attempt"
	case opening:
		return "the server to permit a stream"
	case sending:
		return "the peer's window or the network"
	case receiving:
		if r == ofServer {
			return "the client's message"
		}
		return "the server's answer"
	}
	if r == ofServer {
		return "its handler"
	}
	return "the application"
}

// observed is one running call.
type observed struct {
	of     *observer // nil: only begun is used
	method *observedMethod
	begun  time.Time
	now    atomic.Uint32 // a doing
	wire   int           // the length of a server's request header in bytes, for statistics
}

// observedMethod holds the counters of one method.
type observedMethod struct {
	started atomic.Uint64
	active  atomic.Int64
	codes   [codes.Unauthenticated + 2]atomic.Uint64 // the last counts other codes
	took    latency.Histogram
	slowest latency.Slowest
}

// begin records a call that begins now; nil if nothing is observed.
func (o *observer) begin(method string, d doing) *observed {
	if o == nil {
		return nil
	}
	c := &observed{begun: time.Now()}
	o.enlist(c, method, d)
	return c
}

// enlist records a call that has begun.
func (o *observer) enlist(c *observed, method string, d doing) {
	c.of = o
	c.now.Store(uint32(d))
	o.mu.Lock()
	if o.methods == nil {
		o.methods, o.live = map[string]*observedMethod{}, map[*observed]struct{}{}
	}
	c.method = o.methods[method]
	if c.method == nil {
		if len(o.methods) >= maxRoutes || !utf8.ValidString(method) { // labels of metrics are UTF-8; peers send any bytes
			method = otherMethods
			c.method = o.methods[method]
		}
		if c.method == nil {
			c.method = new(observedMethod)
			o.methods[method] = c.method
		}
	}
	o.live[c] = struct{}{}
	o.mu.Unlock()
	c.method.started.Add(1)
	c.method.active.Add(1)
}

// set records what the call does from now on.
func (c *observed) set(d doing) {
	if c != nil {
		c.now.Store(uint32(d))
	}
}

// end records the call's end. server is nil for a client's call.
func (c *observed) end(err error, server serverCarrier) {
	if c == nil || c.of == nil {
		return
	}
	c.of.mu.Lock()
	delete(c.of.live, c)
	c.of.mu.Unlock()
	m, now := c.method, time.Now()
	m.active.Add(-1)
	took, ended := now.Sub(c.begun), monotonic.Of(now)
	m.took.Add(took, ended)
	if m.slowest.Surpasses(took, ended) {
		trace := ""
		if server != nil {
			if values := server.incoming()["traceparent"]; len(values) > 0 {
				trace = latency.TraceOf(values[0])
			}
		}
		m.slowest.Keep(took, ended, trace)
	}
	m.codes[min(status.Code(err), codes.Code(len(m.codes)-1))].Add(1) // not as an int, which may have 32 bits
}

// report fills in the data about calls.
func (o *observer) report(s *endpoint.State, r role) {
	if o == nil {
		return
	}
	s.Observed = true
	o.mu.Lock()
	for name, m := range o.methods {
		calls := m.report(name)
		s.Calls, s.Done, s.Failed = s.Calls+calls.Started, s.Done+calls.Ended(), s.Failed+calls.Failed()
		s.Active, s.Seconds = s.Active+calls.Active, s.Seconds+calls.Seconds
		s.Methods = append(s.Methods, calls)
	}
	type key struct {
		m *observedMethod
		d doing
	}
	waits := map[key]*endpoint.Wait{}
	names := make(map[*observedMethod]string, len(o.methods))
	for name, m := range o.methods {
		names[m] = name
	}
	now := time.Now()
	for c := range o.live {
		k := key{c.method, doing(c.now.Load())}
		w := waits[k]
		if w == nil {
			w = &endpoint.Wait{Method: names[k.m], For: k.d.waits(r)}
			waits[k] = w
		}
		w.Calls++
		w.Oldest = max(w.Oldest, now.Sub(c.begun))
	}
	o.mu.Unlock()
	slices.SortFunc(s.Methods, func(a, b endpoint.Method) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(a.Name, b.Name))
	})
	if n := len(s.Methods) - endpoint.MaxMethods; n > 0 {
		s.Methods, s.More = s.Methods[:endpoint.MaxMethods], n
	}
	for _, w := range waits {
		s.Waits = append(s.Waits, *w)
	}
	slices.SortFunc(s.Waits, func(a, b endpoint.Wait) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.Method+a.For, b.Method+b.For))
	})
	s.Waits = s.Waits[:min(len(s.Waits), endpoint.MaxWaits)]
}

func (m *observedMethod) report(name string) endpoint.Method {
	out := endpoint.Method{Name: name, Started: m.started.Load(), Active: m.active.Load(), Codes: map[string]uint64{},
		Seconds: m.took.Sum().Seconds()}
	for i := range m.codes {
		if n := m.codes[i].Load(); n > 0 {
			out.Codes[codes.Code(i).String()] = n
		}
	}
	now := monotonic.Now()
	latency.Report(&out, m.took.All(), m.took.LastMinute(now), &m.slowest, now)
	return out
}

// Endpoint returns the server's state for the debug page and its metrics: connections, why they ended, and,
// with [ObserveCalls], calls. It is safe for concurrent use.
func (s *Server) Endpoint() endpoint.State {
	e := endpoint.State{Kind: "gRPC server"}
	s.mu.Lock()
	for l := range s.listeners {
		if e.Name == "" || l.Addr().String() < e.Name {
			e.Name = l.Addr().String()
		}
	}
	s.mu.Unlock()
	if s.maker != nil {
		connstate.Report(s.maker, &e)
	}
	s.opts.observe.report(&e, ofServer)
	return e
}

// Endpoint returns the client's state for the debug page and its metrics, as [Server.Endpoint] does for the
// server; calls are listed with [WithObserveCalls]. The connections of a client of [WithProtocol] are not
// listed.
func (cc *ClientConn) Endpoint() endpoint.State {
	e := endpoint.State{Kind: "gRPC client", Name: cc.Target()}
	if cc.web != nil {
		e.Kind = cc.opts.protocol.String() + " client"
	} else {
		connstate.Report(cc.maker, &e)
	}
	cc.opts.observe.report(&e, ofClient)
	return e
}
