package rpc

import (
	"errors"
	"strings"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// mirrorName is the registered name of a stock ClientConn's balancer, and mirrorConfig the service config that
// names it.
const (
	mirrorName   = "tarn_rpc_mirror"
	mirrorConfig = `{"loadBalancingConfig":[{"` + mirrorName + `":{}}]}`
)

// _ registers the balancer by which a stock ClientConn shows a client's state: grpc-go finds balancers by
// name, in a registry that is filled while a program starts.
var _ = registerMirror()

func registerMirror() string {
	balancer.Register(mirrorBuilder{})
	return mirrorName
}

type mirrorBuilder struct{}

// Name implements balancer.Builder.
func (mirrorBuilder) Name() string { return mirrorName }

// Build implements balancer.Builder. The client is found by the transport credentials.
func (mirrorBuilder) Build(to balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p, ok := opts.DialCreds.(*portal)
	if !ok {
		return lostMirror{to: to}
	}
	// grpc-go has appended its own name to the library's.
	name, _ := strings.CutSuffix(" "+opts.CustomUserAgent, " grpc-go/"+grpc.Version)
	if name = strings.TrimSpace(name); name != "" && p.owns == borrowed {
		p.agent.Store(&agent{name: name + " " + p.cc.opts.userAgent})
	}
	return &mirror{p: p, cc: p.cc, to: to}
}

// mirror shows a client's state as that of a stock ClientConn, and forwards Connect and Close.
type mirror struct {
	p  *portal
	cc *ClientConn
	to balancer.ClientConn
}

// UpdateClientConnState implements balancer.Balancer. It is called once, and again whenever a resolver of the library returns something.
func (m *mirror) UpdateClientConnState(balancer.ClientConnState) error {
	if again := m.cc.channel.Watch(m); !again && m.p.attaching.Load() == 0 {
		m.cc.Connect() // by a library's Connect or Dial
	}
	return nil
}

// Show implements balance.Watcher.
func (m *mirror) Show(s connectivity.State) {
	if s == connectivity.Shutdown { // a balancer cannot report Shutdown
		m.to.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: balance.ErrorPicker{Err: ErrClientConnClosing}})
		return
	}
	m.to.UpdateState(balancer.State{ConnectivityState: s, Picker: balance.ErrorPicker{Err: errNeverDials}})
}

// ExitIdle implements balancer.Balancer. It is called by Connect of the stock ClientConn.
func (m *mirror) ExitIdle() {
	if m.p.attaching.Load() > 0 {
		m.p.attaching.Add(-1)
		return
	}
	m.cc.Connect()
}

// ResolverError implements balancer.Balancer.
func (m *mirror) ResolverError(error) {}

// UpdateSubConnState implements balancer.Balancer.
func (m *mirror) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// Close implements balancer.Balancer.
func (m *mirror) Close() {
	m.cc.channel.Unwatch(m)
	if m.p.owns == owned {
		_ = m.cc.Close() // no error if it is closed already
	}
}

var errLostMirror = errors.New("rpc: the transport credentials of rpc.DialOptions have been replaced by an option behind them")

// lostMirror is the balancer of a ClientConn whose client cannot be found. Its calls nevertheless use the
// client; its state cannot be shown.
type lostMirror struct{ to balancer.ClientConn }

// UpdateClientConnState implements balancer.Balancer.
func (m lostMirror) UpdateClientConnState(balancer.ClientConnState) error {
	m.to.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: balance.ErrorPicker{Err: errLostMirror}})
	return nil
}

// ExitIdle implements balancer.Balancer.
func (lostMirror) ExitIdle() {}

// ResolverError implements balancer.Balancer.
func (lostMirror) ResolverError(error) {}

// UpdateSubConnState implements balancer.Balancer.
func (lostMirror) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// Close implements balancer.Balancer.
func (lostMirror) Close() {}
