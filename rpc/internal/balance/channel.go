// Package balance finds the addresses of a client's target and spreads calls over connections to them: it runs the resolver and the
// balancer, both grpc-go's or written for its interfaces, and has what they work with. It knows no calls, streams or frames. What it needs
// of its client is in Owner and Conn.
//
// Locks are taken in the order switcher.mu, SubConn.mu, names.mu, state.mu. None of them is held while a resolver, a balancer, a
// configuration selector or a producer runs. grpclog's logger and the watchers of the state may run under the last.
package balance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/entity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// ErrClosing is the error of calls of a closed client: CANCELLED.
var ErrClosing = status.Error(codes.Canceled, "grpc: the client connection is closing")

// logger writes to grpc-go's log. It is made when the package is initialised, because grpclog keeps its components in a map without a lock.
var logger = grpclog.Component("rpc")

// Channel is the part of a client that knows its target: names, state and the current picker. Its methods are safe for concurrent use after
// Init.
type Channel struct {
	owner  Owner
	name   string          // the target as given
	entity *entity.Channel // in channelz; nil: not listed

	picker atomic.Pointer[pickers]
	names  names
	state  state
}

// Owner is a Channel's client.
type Owner interface {
	// Settings is called whenever the Channel leaves IDLE.
	Settings() Settings
	// Parse parses a resolver's service config.
	Parse(text string) (*Config, error)
	// Select returns c with what a resolver's state adds to it for calls.
	Select(c *Config, s *resolver.State) *Config
	// Connect makes a connection for s to addr, and waits until it can be used. stop is closed when it is not wanted any more, before ctx ends.
	// When no call can begin on the connection any more, the owner calls s.Lost.
	Connect(ctx context.Context, stop <-chan struct{}, s *SubConn, addr *resolver.Address) (Conn, error)
	// Begin counts a goroutine, which Close of the owner waits for, until Done; false: the owner is being closed.
	Begin() bool
	Done()
	// Streams is how many streams the application's calls have or wait for.
	Streams() int
}

// Settings are what a client has been set to.
type Settings struct {
	Builder  resolver.Builder
	Resolver resolver.BuildOptions
	Balancer balancer.BuildOptions // with the target
	Fallback *Config               // used while the resolver has none
	Metrics  *Metrics

	IdleTimeout time.Duration // 0: none
	Connect     backoff.Config
	MinConnect  time.Duration // that an attempt to connect may take at least
	Health      HealthChecks
}

// HealthChecks says whether a service config may demand them.
type HealthChecks uint8

const (
	HealthChecksOn  HealthChecks = iota // it may
	HealthChecksOff                     // it is ignored
)

// Conn is a connection to a server. A SubConn has one while it is READY.
type Conn interface {
	grpc.ClientConnInterface // calls of the client's own: of health checks and producers

	// Usable returns an error when no call can begin any more.
	Usable() error
	// DisconnectError is gRFC A94's name for the reason why no call can begin any more. It is called when Usable returns an error.
	DisconnectError() string
	// Shutdown lets the running calls end, and begins no more.
	Shutdown()
	// Peer is the server. It does not change.
	Peer() *peer.Peer
}

// Init sets up a Channel of the target name that is IDLE.
func (ch *Channel) Init(owner Owner, name string) {
	ch.owner, ch.name = owner, name
	ch.picker.Store(newPickers(nil))
}

// Target is the target as given.
func (ch *Channel) Target() string { return ch.name }

// Entity is the Channel in channelz; nil: it is not listed.
func (ch *Channel) Entity() *entity.Channel { return ch.entity }

// List shows the Channel's state and names as e's, before the Channel is used.
func (ch *Channel) List(e *entity.Channel) { ch.entity = e }

// Fix makes a Channel without names: cfg is its service config, and it is READY until Close.
func (ch *Channel) Fix(cfg *Config) {
	ch.names.config.Store(cfg)
	ch.state.now = connectivity.Ready
}

// Connect leaves IDLE without a call. It waits until the resolver has been built, as in grpc-go, and not for its addresses or a connection.
func (ch *Channel) Connect() {
	act, begun, err := ch.names.activate(ch)
	if err != nil {
		return
	}
	if begun {
		act.names.call(func() {}) // until it has been built
	}
	act.policy.run(act.balancer.exitIdle)
}

// ResetBackoff makes waiting attempts to connect go ahead at once.
func (ch *Channel) ResetBackoff() {
	for _, s := range ch.names.subConns() {
		s.resetBackoff()
	}
}

// Close ends the calls that wait, the resolver and the balancer, and calls the owner's end before the last two: from then on the owner begins
// nothing. The second call returns ErrClosing.
func (ch *Channel) Close(end func()) error {
	act, err := ch.names.close(ch)
	if err != nil {
		return err
	}
	end()
	ch.setPicker(closedPicker{})
	ch.names.forget() // its selector will not be called any more
	if act != nil {
		act.close()
	}
	return nil
}

// note writes what has become of the client's names to channelz and, at level info, to the log.
func (ch *Channel) note(format string, args ...any) {
	ch.entity.Log(format, args...)
	logger.Infof("client of %s: "+format, append([]any{ch.name}, args...)...)
}

// warn is note at level warning.
func (ch *Channel) warn(format string, args ...any) {
	ch.entity.Log(format, args...)
	logger.Warningf("client of %s: "+format, append([]any{ch.name}, args...)...)
}
