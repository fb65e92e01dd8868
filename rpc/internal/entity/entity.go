// Package entity holds the data of channelz: clients, their subchannels, servers and the sockets of both,
// with their counters (gRFC A14). It uses no connection and no protobuf. Every method of a nil Channel,
// Subchannel, Server or Socket does nothing, so entities that are not listed count nothing.
package entity

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
)

// FirstID is the smallest identifier. Those of grpc-go's own channelz begin at 1, so that
// one service can show both.
const FirstID = 1 << 32

// Registry lists entities. The zero Registry is empty and ready. Its methods are safe for
// concurrent use.
type Registry struct {
	mu          sync.Mutex
	last        int64
	channels    map[int64]*Channel
	subchannels map[int64]*Subchannel
	servers     map[int64]*Server
	sockets     map[int64]*Socket
}

// add enters e under a new identifier. r.mu is held.
func add[E any](r *Registry, m *map[int64]E, e E) int64 {
	if *m == nil {
		*m = map[int64]E{}
	}
	r.last++
	id := FirstID + r.last - 1
	(*m)[id] = e
	return id
}

// Tally counts calls or streams.
type Tally struct {
	Started, Succeeded, Failed atomic.Int64
	last                       atomic.Int64 // when the last one began, in nanoseconds since the epoch
}

func (t *Tally) begin() {
	t.Started.Add(1)
	t.last.Store(time.Now().UnixNano())
}

func (t *Tally) end(how Outcome) {
	if how == Success {
		t.Succeeded.Add(1)
		return
	}
	t.Failed.Add(1)
}

// Last is when the last one began; zero before the first.
func (t *Tally) Last() time.Time { return loadTime(&t.last) }

func loadTime(ns *atomic.Int64) time.Time {
	if n := ns.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Outcome says how a call or stream has ended.
type Outcome uint8

const (
	Success Outcome = iota
	Failure
)

// OutcomeOf is the outcome of a call that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Success
	}
	return Failure
}

// Event is an entry of a trace.
type Event struct {
	Time        time.Time
	Description string
	Subchannel  *Subchannel // the one created or deleted; or nil
}

// maxEvents bounds a trace.
const maxEvents = 30

// Trace holds the last events of an entity.
type Trace struct {
	mu      sync.Mutex
	created time.Time
	logged  int64
	events  []Event
}

// add returns the subchannel of an event that it drops, if no other event names it.
func (t *Trace) add(e Event) (dropped *Subchannel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logged++
	e.Time = time.Now()
	if len(t.events) == maxEvents {
		dropped = t.events[0].Subchannel
		t.events = slices.Delete(t.events, 0, 1)
	}
	t.events = append(t.events, e)
	if slices.ContainsFunc(t.events, func(e Event) bool { return e.Subchannel == dropped }) {
		return nil
	}
	return dropped
}

// Read returns when the entity was made, how many events there were, and the last of them.
func (t *Trace) Read() (created time.Time, logged int64, events []Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created, t.logged, slices.Clone(t.events)
}

// Channel is a client.
type Channel struct {
	reg    *Registry
	ID     int64
	Target string
	Calls  Tally
	Trace  Trace
	state  atomic.Int32
	subs   map[int64]*Subchannel // reg.mu
}

// AddChannel lists a client. A nil Registry lists nothing.
func (r *Registry) AddChannel(target string) *Channel {
	if r == nil {
		return nil
	}
	c := &Channel{reg: r, Target: target, subs: map[int64]*Subchannel{}}
	c.Trace.created = time.Now()
	c.Trace.add(Event{Description: "Channel created"})
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ID = add(r, &r.channels, c)
	return c
}

// Begin counts a call.
func (c *Channel) Begin() {
	if c != nil {
		c.Calls.begin()
	}
}

// End counts the end of a call.
func (c *Channel) End(how Outcome) {
	if c != nil {
		c.Calls.end(how)
	}
}

// SetState sets a client's state.
func (c *Channel) SetState(s connectivity.State) {
	if c != nil {
		c.state.Store(int32(s))
		c.add(Event{Description: fmt.Sprintf("Channel Connectivity change to %v", s)})
	}
}

// Log adds an event to a client's trace.
func (c *Channel) Log(format string, args ...any) {
	if c != nil {
		c.add(Event{Description: fmt.Sprintf(format, args...)})
	}
}

// add adds an event to the trace. A removed subchannel stays in the registry while an event names it.
func (c *Channel) add(e Event) {
	s := c.Trace.add(e)
	if s == nil {
		return
	}
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	if s.removed {
		delete(c.reg.subchannels, s.ID)
	}
}

// State is the client's state.
func (c *Channel) State() connectivity.State { return connectivity.State(c.state.Load()) }

// Remove removes a client from the list, and with it the subchannels that its trace names.
func (c *Channel) Remove() {
	if c == nil {
		return
	}
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	delete(c.reg.channels, c.ID)
	maps.DeleteFunc(c.reg.subchannels, func(_ int64, s *Subchannel) bool { return s.of == c })
}

// Subchannels lists a client's subchannels by identifier.
func (c *Channel) Subchannels() []*Subchannel {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	return inOrder(c.subs)
}

func inOrder[E any](m map[int64]E) []E {
	out := make([]E, 0, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[id])
	}
	return out
}

// Subchannel is a connection to one address that a balancer has asked for.
type Subchannel struct {
	of      *Channel
	ID      int64
	Calls   Tally
	Trace   Trace
	target  atomic.Pointer[string]
	state   atomic.Int32
	sockets map[int64]*Socket // reg.mu
	removed bool              // reg.mu
}

// AddSubchannel lists a subchannel for the address target.
func (c *Channel) AddSubchannel(target string) *Subchannel {
	if c == nil {
		return nil
	}
	s := &Subchannel{of: c, sockets: map[int64]*Socket{}}
	s.target.Store(&target)
	s.Trace.created = time.Now()
	s.Trace.add(Event{Description: "Subchannel created"})
	c.reg.mu.Lock()
	s.ID = add(c.reg, &c.reg.subchannels, s)
	c.subs[s.ID] = s
	c.reg.mu.Unlock()
	c.add(Event{Description: fmt.Sprintf("Subchannel(id:%d) created", s.ID), Subchannel: s})
	return s
}

// Target is the address that the subchannel has tried last.
func (s *Subchannel) Target() string { return *s.target.Load() }

// SetTarget sets the address that is tried.
func (s *Subchannel) SetTarget(addr string) {
	if s != nil {
		s.target.Store(&addr)
		s.Trace.add(Event{Description: fmt.Sprintf("Subchannel picks a new address %q to connect", addr)})
	}
}

// Begin counts a call for which the subchannel was picked.
func (s *Subchannel) Begin() {
	if s != nil {
		s.Calls.begin()
	}
}

// End counts the end of a call.
func (s *Subchannel) End(how Outcome) {
	if s != nil {
		s.Calls.end(how)
	}
}

// SetState sets a subchannel's state and, if it failed, the reason.
func (s *Subchannel) SetState(st connectivity.State, err error) {
	if s == nil {
		return
	}
	s.state.Store(int32(st))
	text := fmt.Sprintf("Subchannel Connectivity change to %v", st)
	if err != nil {
		text += ", last error: " + err.Error()
	}
	s.Trace.add(Event{Description: text})
}

// State is the subchannel's state.
func (s *Subchannel) State() connectivity.State { return connectivity.State(s.state.Load()) }

// Remove removes a subchannel from its client's. It can be found while the client's trace names it. A socket with running calls stays
// until it ends.
func (s *Subchannel) Remove() {
	if s == nil {
		return
	}
	r := s.of.reg
	r.mu.Lock()
	listed := !s.removed
	s.removed = true
	delete(s.of.subs, s.ID)
	r.mu.Unlock()
	if listed {
		s.Trace.add(Event{Description: "Subchannel deleted"})
		s.of.add(Event{Description: fmt.Sprintf("Subchannel(id:%d) deleted", s.ID), Subchannel: s})
	}
}

// Sockets lists a subchannel's sockets by identifier.
func (s *Subchannel) Sockets() []*Socket {
	s.of.reg.mu.Lock()
	defer s.of.reg.mu.Unlock()
	return inOrder(s.sockets)
}

// Server is a server.
type Server struct {
	reg       *Registry
	ID        int64
	Calls     Tally
	listeners map[int64]*Socket // reg.mu
	sockets   map[int64]*Socket // reg.mu
}

// AddServer lists a server. A nil Registry lists nothing.
func (r *Registry) AddServer() *Server {
	if r == nil {
		return nil
	}
	s := &Server{reg: r, listeners: map[int64]*Socket{}, sockets: map[int64]*Socket{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ID = add(r, &r.servers, s)
	return s
}

// Begin counts a call.
func (s *Server) Begin() {
	if s != nil {
		s.Calls.begin()
	}
}

// End counts the end of a call.
func (s *Server) End(how Outcome) {
	if s != nil {
		s.Calls.end(how)
	}
}

// Remove removes a server from the list.
func (s *Server) Remove() {
	if s == nil {
		return
	}
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	delete(s.reg.servers, s.ID)
}

// Listeners lists a server's listening sockets by identifier.
func (s *Server) Listeners() []*Socket {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	return inOrder(s.listeners)
}

// Sockets lists a server's connections by identifier.
func (s *Server) Sockets() []*Socket {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	return inOrder(s.sockets)
}

// Side says which side of a connection this is.
type Side uint8

const (
	ServerSide Side = iota
	ClientSide
)

// Conn describes the connection of a Socket.
type Conn struct {
	Side          Side
	Local, Remote net.Addr
	RemoteName    string // the verified name of the peer
	Auth          credentials.AuthInfo
	// Windows returns how many bytes the peer and this side may send on the connection; nil when that is not
	// known.
	Windows func() (local, remote int64)
}

// Socket is a connection, or a listening socket.
type Socket struct {
	Conn
	reg      *Registry
	in       map[int64]*Socket
	ID       int64
	Streams  Tally
	Sent     atomic.Int64 // messages
	Received atomic.Int64
	lastSent atomic.Int64
	lastRecv atomic.Int64
}

func (r *Registry) addSocket(in map[int64]*Socket, c Conn) *Socket {
	s := &Socket{reg: r, in: in, Conn: c}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ID = add(r, &r.sockets, s)
	in[s.ID] = s
	return s
}

// AddSocket lists a connection of a subchannel.
func (s *Subchannel) AddSocket(c Conn) *Socket {
	if s == nil {
		return nil
	}
	c.Side = ClientSide
	return s.of.reg.addSocket(s.sockets, c)
}

// AddSocket lists a connection of a server.
func (s *Server) AddSocket(c Conn) *Socket {
	if s == nil {
		return nil
	}
	return s.reg.addSocket(s.sockets, c)
}

// AddListener lists a listening socket.
func (s *Server) AddListener(addr net.Addr) *Socket {
	if s == nil {
		return nil
	}
	return s.reg.addSocket(s.listeners, Conn{Local: addr})
}

// Remove removes a socket from the list.
func (s *Socket) Remove() {
	if s == nil {
		return
	}
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	delete(s.reg.sockets, s.ID)
	delete(s.in, s.ID)
}

// Name is shown in references to the socket.
func (s *Socket) Name() string {
	switch {
	case s.Local == nil:
		return ""
	case s.Remote == nil:
		return s.Local.String()
	}
	return fmt.Sprintf("%v -> %v", s.Local, s.Remote)
}

// Begin counts a stream.
func (s *Socket) Begin() {
	if s != nil {
		s.Streams.begin()
	}
}

// End counts the end of a stream.
func (s *Socket) End(how Outcome) {
	if s != nil {
		s.Streams.end(how)
	}
}

// MessageSent counts a message.
func (s *Socket) MessageSent() {
	if s != nil {
		s.Sent.Add(1)
		s.lastSent.Store(time.Now().UnixNano())
	}
}

// MessageReceived counts a message.
func (s *Socket) MessageReceived() {
	if s != nil {
		s.Received.Add(1)
		s.lastRecv.Store(time.Now().UnixNano())
	}
}

// LastSent is when the last message was sent; zero before the first.
func (s *Socket) LastSent() time.Time { return loadTime(&s.lastSent) }

// LastReceived is when the last message was received; zero before the first.
func (s *Socket) LastReceived() time.Time { return loadTime(&s.lastRecv) }

// Channels lists at most n clients from an identifier on, and reports whether these are the last.
func (r *Registry) Channels(from int64, n int) ([]*Channel, bool) {
	return page(r, &r.channels, from, n)
}

// Servers lists servers as Channels does clients.
func (r *Registry) Servers(from int64, n int) ([]*Server, bool) { return page(r, &r.servers, from, n) }

// Channel finds a client; nil when there is none.
func (r *Registry) Channel(id int64) *Channel { return find(r, &r.channels, id) }

// Subchannel finds a subchannel; nil when there is none.
func (r *Registry) Subchannel(id int64) *Subchannel { return find(r, &r.subchannels, id) }

// Server finds a server; nil when there is none.
func (r *Registry) Server(id int64) *Server { return find(r, &r.servers, id) }

// Socket finds a socket; nil when there is none.
func (r *Registry) Socket(id int64) *Socket { return find(r, &r.sockets, id) }

func find[E any](r *Registry, m *map[int64]E, id int64) E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (*m)[id]
}

func page[E any](r *Registry, m *map[int64]E, from int64, n int) ([]E, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := slices.Sorted(maps.Keys(*m))
	first, _ := slices.BinarySearchFunc(ids, from, cmp.Compare[int64])
	ids = ids[first:]
	end := len(ids) <= n
	if !end {
		ids = ids[:n]
	}
	out := make([]E, 0, len(ids))
	for _, id := range ids {
		out = append(out, (*m)[id])
	}
	return out, end
}
