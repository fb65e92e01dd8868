package balance

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// producer is an object that a balancer runs on a SubConn's connection, such as the listener to out-of-band
// load reports, until the state of the SubConn changes.
type producer struct {
	p     balancer.Producer
	stop  func()
	built chan struct{} // closed when p and stop are set
	refs  int           // SubConn.mu
	ended sync.Once
}

// end waits until p has been built.
func (p *producer) end() {
	<-p.built
	p.ended.Do(p.stop)
}

func endAll(producers map[balancer.ProducerBuilder]*producer) {
	for _, p := range producers {
		p.end()
	}
}

// GetOrBuildProducer implements balancer.SubConn. The builder is given a
// grpc.ClientConnInterface whose calls go over this SubConn. A producer that is built after Shutdown has taken effect is stopped at once:
// nothing else would stop it, because no change of the state follows.
//
// Build runs in the goroutine of the caller, which mostly is the balancer's, as in grpc-go. While it waits for a call of its own, the
// balancer gets no changes and Close does not return, there as here; a builder that makes calls leaves them to another goroutine.
func (s *SubConn) GetOrBuildProducer(b balancer.ProducerBuilder) (balancer.Producer, func()) {
	s.mu.Lock()
	over := s.state == connectivity.Shutdown
	p, found := s.producers[b]
	if !found {
		p = &producer{built: make(chan struct{})}
		if !over { // otherwise the entry would stay
			if s.producers == nil {
				s.producers = map[balancer.ProducerBuilder]*producer{}
			}
			s.producers[b] = p
		}
	}
	p.refs++
	s.mu.Unlock()
	if !found {
		// Without the lock: a call that the builder makes takes it when the connection turns out to be lost.
		p.p, p.stop = b.Build(onSubConn{s})
		close(p.built)
	}
	<-p.built
	if over {
		p.end()
	}
	return p.p, sync.OnceFunc(func() { s.release(b, p) })
}

func (s *SubConn) release(b balancer.ProducerBuilder, p *producer) {
	s.mu.Lock()
	p.refs--
	last := p.refs == 0
	if last && s.producers[b] == p {
		delete(s.producers, b)
	}
	s.mu.Unlock()
	if last {
		p.end()
	}
}

// onSubConn makes calls over one SubConn, without interceptors.
type onSubConn struct{ s *SubConn }

func (o onSubConn) conn() (Conn, error) {
	c := o.s.conn.Load()
	if c == nil {
		return nil, status.Error(codes.Unavailable, "SubConn state is not Ready")
	}
	return *c, nil
}

// Invoke implements grpc.ClientConnInterface.
func (o onSubConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	c, err := o.conn()
	if err != nil {
		return err
	}
	return c.Invoke(ctx, method, req, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (o onSubConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c, err := o.conn()
	if err != nil {
		return nil, err
	}
	return c.NewStream(ctx, desc, method, opts...)
}

// Producers is how many producers s keeps.
func (s *SubConn) Producers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.producers)
}
