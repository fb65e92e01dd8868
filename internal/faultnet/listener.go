package faultnet

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Listener is a net.Listener whose connections come from its Dial, each through a Link.
// It connects a server with a client that dials with a function.
type Listener struct {
	t     testing.TB
	kind  Kind
	conns chan net.Conn // for Accept
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	links  []*Link
	faults func(*Link)
}

// Listen returns a Listener. Its links end with the test.
func Listen(t testing.TB, kind Kind) *Listener {
	return &Listener{t: t, kind: kind, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial makes a Link, hands one end to Accept and returns the other. The arguments beside the context are
// not looked at; they make it fit the dialers of net, smb and rpc.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	link := New(l.t, l.kind)
	l.mu.Lock()
	l.links = append(l.links, link)
	faults := l.faults
	l.mu.Unlock()
	if faults != nil {
		faults(link)
	}
	var err error
	select {
	case l.conns <- link.Server:
		return link.Client, nil
	case <-l.done:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	link.Client.Close()
	link.Server.Close()
	return nil, err
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Links that were accepted stay open.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr{} }

// Faults has f called for each link to come, before either side has it.
func (l *Listener) Faults(f func(*Link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// Each calls f for each link made so far, ended ones included.
func (l *Listener) Each(f func(*Link)) {
	l.mu.Lock()
	links := l.links[:len(l.links):len(l.links)]
	l.mu.Unlock()
	for _, link := range links {
		f(link)
	}
}
