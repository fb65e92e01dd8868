package migrate

// The programs that tests change, and the library that they use.

// source is a program that uses grpc-go in the usual ways, and in some that cannot be
// changed.
const source = `package main

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"example.com/app/library"
)

func intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, opts...)
}

func options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(intercept)}
}

func connect(addr string) (*grpc.ClientConn, error) { return grpc.NewClient(addr, options()...) }

func serve(lis net.Listener) error {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1<<20), grpc.ChainUnaryInterceptor())
	healthpb.RegisterHealthServer(s, health.NewServer())
	return s.Serve(lis)
}

func main() {
	cc, err := connect("127.0.0.1:1")
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	library.Use(cc)
	library.Dial(grpc.WithUserAgent("app"))
	_ = grpc.Invoke(context.Background(), "/a/b", nil, nil, cc)
	_, _ = healthpb.NewHealthClient(cc).Check(context.Background(), nil, grpc.WaitForReady(true))
}
`

// dictated is a file with functions whose types a library prescribes.
const dictated = `package main

import (
	"context"

	"google.golang.org/grpc"

	"example.com/app/library"
)

type plugin struct{}

func (plugin) Client(cc *grpc.ClientConn) any { library.Use(cc); return cc }

func (plugin) Server(s *grpc.Server) {}

var _ library.Plugin = plugin{}

type mixed struct{}

func (mixed) Client(cc *grpc.ClientConn) any { return cc }

func (*mixed) Server(s *grpc.Server) {}

var _ library.Plugin = new(mixed)

var invoke = func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	return nil
}

func others() {
	var i grpc.UnaryInvoker = invoke
	_ = i
	library.Serve(func(opts []grpc.ServerOption) *grpc.Server { return grpc.NewServer(opts...) })
	cc := library.Dial()
	library.Use(cc)
	own, _ := grpc.NewClient("127.0.0.1:1")
	library.Use(own)
}
`

// emptied has functions that return nil for an option, and options of the program's own, by an Empty option that stays where it goes
// to a library.
const emptied = `package main

import (
	"errors"

	"google.golang.org/grpc"

	"example.com/app/library"
)

type named struct{ grpc.EmptyDialOption }

type namedServer struct{ grpc.EmptyServerOption }

func option() (grpc.DialOption, error) { return nil, errors.New("none") }

func serverOption() (grpc.ServerOption, error) { return nil, errors.New("none") }

func empty() {
	_, _ = grpc.NewClient("127.0.0.1:1", grpc.EmptyDialOption{}, named{})
	grpc.NewServer(grpc.EmptyServerOption{}, namedServer{})
	library.Dial(grpc.EmptyDialOption{})
}
`

// own is a file that gives its own clients, servers and options to libraries that do not say what they are.
const own = `package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"example.com/app/library"
)

type holder struct {
	cc atomic.Pointer[grpc.ClientConn]
	s  atomic.Pointer[grpc.Server]
}

var dialOnce = sync.OnceValues(func() (*grpc.ClientConn, error) { return grpc.NewClient("127.0.0.1:1") })

func hold(h *holder) {
	cc, _ := dialOnce()
	h.cc.Store(cc)
	h.s.Store(grpc.NewServer(slices.Concat([]grpc.ServerOption{grpc.MaxRecvMsgSize(1)}, nil)...))
	library.Use(h.cc.Load())
	library.Provide(func(opts []grpc.ServerOption) *grpc.Server { return grpc.NewServer(opts...) }, grpc.EmptyDialOption{})
	_ = intercept(context.Background(), "/a/b", nil, nil, cc, nil)
	_ = library.Module{Constructor: func(s *grpc.Server) *grpc.ClientConn { return nil }}
}
`

// theirs is a file whose functions and options have types of a library's that are made of grpc-go's.
const theirs = `package main

import (
	"google.golang.org/grpc"

	"example.com/app/library"
)

func give() {
	_ = library.Dialer(func(opts ...grpc.DialOption) *grpc.ClientConn { return nil })
	_ = library.Module{Dial: func(opts ...grpc.DialOption) *grpc.ClientConn { return nil }, Options: []grpc.DialOption{grpc.WithUserAgent("app")}}
	_ = library.Module{nil, nil, []grpc.DialOption{grpc.EmptyDialOption{}}}
	library.Use(library.Must(library.Dial()))
}
`

// received is a file that keeps a client and a server of a library's, and lends them.
const received = `package main

import (
	"errors"

	"google.golang.org/grpc"

	"example.com/app/library"
)

type receiver struct {
	server *grpc.Server
	cc     *grpc.ClientConn
}

type component struct{ s *grpc.Server }

func (c *component) Client(cc *grpc.ClientConn) any { return cc }

func (c *component) Server(s *grpc.Server) { c.s = s }

var _ library.Plugin = new(component)

func open() (*grpc.ClientConn, error) { return library.Dial(), nil }

func lend(cc *grpc.ClientConn) { library.Use(cc) }

func (r *receiver) start() error {
	var err error
	if r.server, err = library.Server(); err != nil {
		return err
	}
	library.Register(r.server)
	var cc *grpc.ClientConn
	if cc, err = open(); err != nil {
		return err
	}
	r.cc = cc
	lend(r.cc)
	return nil
}

func (r *receiver) serve() error {
	if err := r.server.Serve(nil); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	other := receiver{cc: r.cc}
	library.Use(other.cc)
	return r.cc.Close()
}
`

// mixed is a file with a field that gets a library's client, and the program's own.
const mixed = `package main

import (
	"google.golang.org/grpc"

	"example.com/app/library"
)

type client struct{ cc *grpc.ClientConn }

func mix() client {
	c := client{cc: library.Dial()}
	if c.cc == nil {
		cc, _ := grpc.NewClient("127.0.0.1:1")
		c = client{cc}
	}
	return c
}
`

// satisfied is a file with an interface that a type of a library's implements, another type of it, and an interface that only the
// program's types implement.
const satisfied = `package main

import (
	"google.golang.org/grpc"

	"example.com/app/library"
)

type store interface {
	ActiveConnection() *grpc.ClientConn
	Over(cc *grpc.ClientConn) any
}

type inMemory struct{ cc *grpc.ClientConn }

func (m *inMemory) ActiveConnection() *grpc.ClientConn { return m.cc }

func (m *inMemory) Over(cc *grpc.ClientConn) any { m.cc = cc; return nil }

var stores = []store{new(library.Client), new(inMemory)}

func watch(conn *grpc.ClientConn) { library.Use(conn) }

func every() {
	for _, s := range stores {
		watch(s.ActiveConnection())
	}
	cc, _ := grpc.NewClient("127.0.0.1:1")
	stores[0].Over(cc)
}

type dialer interface {
	Dial(target string) (*grpc.ClientConn, error)
}

type direct struct{}

func (direct) Dial(target string) (*grpc.ClientConn, error) { return grpc.NewClient(target) }

var _ dialer = direct{}
`

// library represents a module that stays with grpc-go.
const library = `// Code generated by hand. DO NOT EDIT.

package library

import "google.golang.org/grpc"

type Plugin interface {
	Client(*grpc.ClientConn) any
	Server(*grpc.Server)
}

func Use(*grpc.ClientConn)                         {}
func Dial(...grpc.DialOption) *grpc.ClientConn     { return nil }
func Serve(func([]grpc.ServerOption) *grpc.Server) {}
func Provide(...any)                               {}
func Server() (*grpc.Server, error)                { return nil, nil }
func Register(*grpc.Server)                        {}
func Must[T any](v T) T                            { return v }

type Client struct{}

func (*Client) ActiveConnection() *grpc.ClientConn { return nil }
func (*Client) Over(*grpc.ClientConn) any          { return nil }

type Dialer func(...grpc.DialOption) *grpc.ClientConn

type Module struct {
	Constructor any
	Dial        Dialer
	Options     []grpc.DialOption
}
`
