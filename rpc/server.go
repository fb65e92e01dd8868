package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/workers"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// ErrServerStopped is returned by Serve when Stop or GracefulStop had been called before. It is grpc-go's, with which
// libraries that serve compare.
var ErrServerStopped = grpc.ErrServerStopped

// Server is a gRPC server. It is a grpc.ServiceRegistrar and has the methods that grpc's health and
// reflection packages need. Its methods are safe for concurrent use; services must be registered before
// Serve.
type Server struct {
	fieldsReader // of ServeHTTP

	opts         serverOptions
	workers      *workers.Pool[*serverCall] // open while there is a connection
	accepts      string                     // grpc-accept-encoding
	acceptsField []string                   // the same as the value of an http.Header; never changed
	maker        *h2.Maker
	web          *webPort
	unary        grpc.UnaryServerInterceptor
	stream       grpc.StreamServerInterceptor

	// methods and services are filled before Serve and only read afterwards.
	methods  map[string]*method
	services map[string]*service

	entity *entity.Server // in channelz; nil: not listed

	deadlines webDeadlines // of the calls of ServeHTTP

	quit chan struct{} // closed when the server begins to stop

	decompressing chan struct{} // has an element for each message that is being decompressed

	calls   webCalls    // that ServeHTTP is serving
	serving atomic.Bool // nothing can be registered any more; set with mu held

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*serverConn]struct{}
	raw       map[*accepted]struct{} // accepted, not yet set up
	stopping  stopping
	loops     sync.WaitGroup // Serve calls and connections
	handlers  sync.WaitGroup // calls: their handlers run, or wait for the request
}

// fieldsReader has h2http make no Header for a request that it passes to a Server (see webCall.list).
type fieldsReader = fields.Reader

type stopping uint8

const (
	running stopping = iota
	draining
	stopped
)

// service is a registered service.
type service struct {
	impl any
	desc *grpc.ServiceDesc
}

// method is a method of a service. Exactly one of unary and stream is set.
type method struct {
	path     string
	impl     any
	unary    *grpc.MethodDesc
	stream   *grpc.StreamDesc
	info     *grpc.StreamServerInfo
	lends    *lender // of its requests to handlers; nil: they are copied
	requests message.Learned
}

// NewServer makes a server without services and listeners.
func NewServer(opts ...ServerOption) *Server {
	o := defaultServerOptions()
	for _, opt := range opts {
		opt.apply(&o)
	}
	if o.unaryOne != nil {
		o.unary = append([]grpc.UnaryServerInterceptor{o.unaryOne}, o.unary...)
	}
	if o.streamOne != nil {
		o.stream = append([]grpc.StreamServerInterceptor{o.streamOne}, o.stream...)
	}
	warnOfTracing()
	if warnOfFilter(o.callLog, "BinaryLog"); o.callLog != nil {
		o.unary = append([]grpc.UnaryServerInterceptor{o.callLog.unaryServer}, o.unary...)
		o.stream = append([]grpc.StreamServerInterceptor{o.callLog.streamServer}, o.stream...)
	}
	maker, err := h2.Servers(o.h2())
	if err != nil {
		panic(err) // a defect of an option: each keeps to h2's bounds (TestLargestValues)
	}
	s := &Server{
		maker: maker, opts: o, workers: workers.New[*serverCall](o.idleWorkers), accepts: acceptEncoding(o.acceptEncoding),
		unary: chainUnaryServer(o.unary), stream: chainStreamServer(o.stream),
		methods: make(map[string]*method), services: make(map[string]*service),
		listeners: make(map[net.Listener]struct{}), conns: make(map[*serverConn]struct{}),
		raw: make(map[*accepted]struct{}), quit: make(chan struct{}),
		decompressing: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))), // not one, which a compressor that blocks would hold
	}
	s.fieldsReader = fields.ReaderOf(s)
	s.acceptsField = []string{s.accepts}
	s.web = newWebPort(s)
	s.entity = o.channelz.Entities().AddServer()
	return s
}

// RegisterService adds a service, as generated code does. It panics when the server is serving already, when
// the name is registered already, and when impl does not implement the service.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if impl != nil && desc.HandlerType != nil {
		want := reflect.TypeOf(desc.HandlerType).Elem()
		if got := reflect.TypeOf(impl); !got.Implements(want) {
			panic(fmt.Sprintf("rpc: caller registered %v, which does not implement %v", got, want))
		}
	}
	warnOfChannelz(desc, impl)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving.Load() {
		panic(fmt.Sprintf("rpc: caller registered %q after Serve", desc.ServiceName))
	}
	if s.services[desc.ServiceName] != nil {
		panic(fmt.Sprintf("rpc: caller registered %q twice", desc.ServiceName))
	}
	s.services[desc.ServiceName] = &service{impl, desc}
	for i := range desc.Methods {
		d := &desc.Methods[i]
		path := "/" + desc.ServiceName + "/" + d.MethodName
		s.methods[path] = &method{path: path, impl: impl, unary: d, lends: s.opts.lends(path)}
	}
	for i := range desc.Streams {
		d := &desc.Streams[i]
		path := "/" + desc.ServiceName + "/" + d.StreamName
		s.methods[path] = &method{path: path, impl: impl, stream: d, lends: s.opts.lends(path), info: &grpc.StreamServerInfo{
			FullMethod: path, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams}}
	}
}

// GetServiceInfo lists the registered services, for reflection.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]grpc.ServiceInfo, len(s.services))
	for name, svc := range s.services {
		info := grpc.ServiceInfo{Metadata: svc.desc.Metadata}
		for _, m := range svc.desc.Methods {
			info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
		}
		for _, m := range svc.desc.Streams {
			info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.StreamName,
				IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams})
		}
		out[name] = info
	}
	return out
}

// Serve accepts connections on lis until it fails or the server is stopped. It
// takes ownership of lis and closes it. It returns nil after Stop or
// GracefulStop, ErrServerStopped when they were called before it, and otherwise
// the listener's error.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	if s.stopping != running {
		s.mu.Unlock()
		lis.Close()
		return ErrServerStopped
	}
	s.serving.Store(true)
	s.listeners[lis] = struct{}{}
	s.loops.Add(1)
	s.mu.Unlock()
	defer s.loops.Done()
	listed := s.addListener(lis)
	defer listed.Remove()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closeListener(lis)
	}()
	return s.accept(lis)
}

const maxAcceptDelay = time.Second

// accept starts a goroutine for each connection. After a temporary failure (no file descriptors) it waits and
// tries again.
func (s *Server) accept(lis net.Listener) error {
	delay := time.Duration(0)
	for {
		nc, err := lis.Accept()
		if err == nil {
			delay = 0
			if a := (&accepted{Conn: nc}); s.admit(a) {
				go s.serveConn(a)
			}
			continue
		}
		if s.state() != running {
			return nil
		}
		if t, ok := err.(interface{ Temporary() bool }); !ok || !t.Temporary() {
			return err
		}
		delay = min(maxAcceptDelay, max(5*time.Millisecond, 2*delay))
		select {
		case <-time.After(delay):
		case <-s.quit:
		}
	}
}

func (s *Server) state() stopping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// accepted is a connection of a listener, whose own type may not be comparable, until it is set up. Server.mu guards its fields.
type accepted struct {
	net.Conn
	outside   bool // the program's code has it
	abandoned bool // Stop waits for it no more
}

// admit adds nc to the connections, or closes it when the server is stopping.
func (s *Server) admit(nc *accepted) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping != running {
		nc.Close()
		return false
	}
	s.raw[nc] = struct{}{}
	s.loops.Add(1)
	return true
}

// forget removes a connection that is not set up, and for which Stop is not to wait any more.
func (s *Server) forget(nc *accepted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !nc.abandoned {
		s.abandon(nc)
	}
}

// abandon does the same. mu is held.
func (s *Server) abandon(nc *accepted) {
	nc.abandoned = true
	delete(s.raw, nc)
	s.loops.Done()
}

// outside runs f, which is code of the program's, in the set-up of nc. Stop does not wait for it: it abandons nc, and errAbandoned is returned
// when f has ended.
func (s *Server) outside(nc *accepted, f func() error) (err error) {
	s.mu.Lock()
	nc.outside = true
	if s.stopping == stopped {
		s.abandon(nc)
	}
	gone := nc.abandoned
	s.mu.Unlock()
	if gone {
		return errAbandoned
	}
	defer func() { // also if f ends the goroutine
		s.mu.Lock()
		defer s.mu.Unlock()
		if nc.outside = false; nc.abandoned {
			err = errAbandoned
		}
	}()
	return f()
}

var errAbandoned = errors.New("the server has been stopped")

// serveConn sets up one connection.
func (s *Server) serveConn(nc *accepted) {
	taken := false // by a server of HTTP/2 or HTTP/1.1, or by the credentials
	defer func() {
		if !taken { // an error, or the credentials or a stats handler have ended the goroutine
			s.forget(nc)
			nc.Close()
		}
	}()
	in, err := s.greet(nc)
	if errors.Is(err, errDispatched) {
		taken = true
		s.forget(nc)
		return
	}
	if err == nil {
		err = s.tagConn(nc, in)
	}
	if err != nil {
		if s.state() == running && !errors.Is(err, io.EOF) {
			logger.Info("server: the connection from", nc.RemoteAddr(), "could not be set up:", err)
		}
		return
	}
	taken = true
	if in.http1 {
		s.serveHTTP1(nc, in)
		return
	}
	c := newServerConn(s, in)
	s.mu.Lock()
	delete(s.raw, nc)
	if len(s.conns) == 0 {
		s.workers.Open()
	}
	s.conns[c] = struct{}{}
	state := s.stopping
	s.mu.Unlock()
	switch state {
	case draining:
		c.h2c.Shutdown(gracefulStop)
	case stopped:
		c.h2c.Abort(h2.NoError, "")
	}
	c.h2c.Start(c.ended)
}

// tagConn gives a new connection to the statistics handlers, which make its context.
func (s *Server) tagConn(nc *accepted, in *incoming) error {
	in.ctx = context.Background()
	if in.http1 {
		in.ctx = context.WithValue(in.ctx, http.ServerContextKey, &s.web.http1)
	}
	if len(s.opts.stats) == 0 {
		return nil
	}
	told := false
	err := s.outside(nc, func() error {
		told = true
		for _, h := range s.opts.stats {
			in.ctx = h.TagConn(in.ctx, &stats.ConnTagInfo{RemoteAddr: in.RemoteAddr(), LocalAddr: in.LocalAddr()})
			h.HandleConn(in.ctx, &stats.ConnBegin{})
		}
		return nil
	})
	if err != nil {
		in.Close()
	}
	if err != nil && told {
		s.statsConnEnd(in.ctx)
	}
	return err
}

// untag reports the end of a connection to the statistics handlers, and lets Stop go on, which waits for them with WaitForHandlers alone.
func (s *Server) untag(ctx context.Context) {
	if len(s.opts.stats) > 0 {
		s.handlers.Add(1) // before loops.Done, so that Stop does not wait for handlers yet
		defer s.handlers.Done()
	}
	s.loops.Done()
	s.statsConnEnd(ctx)
}

func (s *Server) statsConnEnd(ctx context.Context) {
	for _, h := range s.opts.stats {
		h.HandleConn(ctx, &stats.ConnEnd{})
	}
}

// Stop closes all listeners and connections at once and cancels running calls, those of ServeHTTP included. It returns when the
// connections have ended. It waits for handlers, and for statistics handlers that are told of a connection's end, if [WaitForHandlers] was
// set; not for handshakes of credentials and for statistics handlers in the set-up of a connection.
func (s *Server) Stop() {
	s.stopHealth()
	s.mu.Lock()
	s.beginStop(stopped)
	for nc := range s.raw {
		nc.Close()
		if nc.outside {
			s.abandon(nc)
		}
	}
	conns := s.snapshot()
	s.mu.Unlock()
	for _, c := range s.calls.close() {
		go c.halt()
	}
	s.web.stop()
	for _, c := range conns {
		c.h2c.Close()
	}
	s.loops.Wait()
	if s.opts.waitHandlers {
		s.handlers.Wait()
	}
	s.web.streams.Close()
	s.entity.Remove()
}

// GracefulStop closes all listeners, sends GOAWAY to clients, and returns when every running call has ended.
// Stop, called meanwhile, ends them at once.
func (s *Server) GracefulStop() {
	s.stopHealth()
	s.mu.Lock()
	s.beginStop(draining)
	if s.opts.plaintext() { // they have not sent a byte
		for nc := range s.raw {
			nc.Close()
		}
	}
	conns := s.snapshot()
	s.mu.Unlock()
	s.calls.close()
	for _, c := range conns {
		c.h2c.Shutdown(gracefulStop)
	}
	s.web.drain()
	s.loops.Wait()
	s.handlers.Wait()
	s.mu.Lock()
	s.stopping = stopped
	s.mu.Unlock()
	s.web.streams.Close()
	s.entity.Remove()
}

// beginStop makes the server stop, in this way or one more abrupt, and closes its listeners. mu is held.
func (s *Server) beginStop(state stopping) {
	if s.stopping == running {
		close(s.quit)
	}
	s.stopping = max(s.stopping, state)
	for lis := range s.listeners {
		s.closeListener(lis)
	}
}

// closeListener closes lis unless that has been done: a program's listener may panic when it is closed twice. mu is held.
func (s *Server) closeListener(lis net.Listener) {
	if _, open := s.listeners[lis]; open {
		delete(s.listeners, lis)
		lis.Close()
	}
}

func (s *Server) snapshot() []*serverConn {
	out := make([]*serverConn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}
