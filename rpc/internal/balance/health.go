package balance

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/backoff"
	"google.golang.org/grpc"
	gbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthWatch is a balancer's listener to the health of a READY SubConn.
type healthWatch struct {
	stop context.CancelFunc // nil: the health is not checked
}

func (w *healthWatch) end() {
	if w != nil && w.stop != nil {
		w.stop()
	}
}

// checkedService is the service whose health the service config wants checked; nil when there is none.
func (s *SubConn) checkedService() *string {
	cfg := s.act.ch.names.config.Load()
	if s.act.set.Health == HealthChecksOff || cfg == nil {
		return nil
	}
	return cfg.Health
}

// checkHealth makes the service's state the SubConn's. s.mu is held.
func (s *SubConn) checkHealth(ctx context.Context, c Conn, service string) {
	s.watch(ctx, c, service, func(state connectivity.State, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held == c {
			s.setState(state, err)
		}
	})
}

// RegisterHealthListener implements balancer.SubConn: listener, nil for none, replaces
// the last one, and is called with the states of the service that the service config
// names, or with READY once when it names none.
func (s *SubConn) RegisterHealthListener(listener func(balancer.SubConnState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.end()
	s.health = nil
	if s.state != connectivity.Ready || s.leaving || listener == nil { // leaving: the connection may have been lost
		return
	}
	w := &healthWatch{}
	s.health = w
	notify := func(state connectivity.State, err error) {
		s.act.policy.run(func() {
			s.mu.Lock()
			current := s.health == w
			s.mu.Unlock()
			if current {
				listener(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
			}
		})
	}
	name := s.checkedService()
	if name == nil || s.opts.HealthCheckEnabled { // not wanted, or READY implies it
		notify(connectivity.Ready, nil)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	s.watch(ctx, s.held, *name, notify)
}

// watch calls Health.Watch on c until ctx or the connection ends, and calls notify with every change. A
// server without a health service counts as healthy. s.mu is held.
func (s *SubConn) watch(ctx context.Context, c Conn, service string, notify func(connectivity.State, error)) {
	// Close ends the connection, and with it the goroutine, but does not wait for it: it calls the application's per-RPC credentials.
	go func() {
		for failures := 0; ; failures++ {
			if !sleep(ctx, backoff.Delay(gbackoff.DefaultConfig, failures)) || c.Usable() != nil {
				return
			}
			notify(connectivity.Connecting, nil)
			answered, err := watchOnce(ctx, c, service, notify)
			switch {
			case ctx.Err() != nil || c.Usable() != nil:
				return
			case status.Code(err) == codes.Unimplemented:
				logger.Errorf("the server at %v has no health service: its connections count as healthy", c.Peer().Addr)
				notify(connectivity.Ready, nil)
				return
			}
			notify(connectivity.TransientFailure, fmt.Errorf("connection active but received health check RPC error: %w", err))
			if answered {
				failures = -1
			}
		}
	}()
}

// watchOnce makes one call of Health.Watch. answered reports whether the server has answered.
func watchOnce(ctx context.Context, c Conn, service string, notify func(connectivity.State, error)) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthpb.Health_Watch_FullMethodName)
	if err != nil {
		return false, err
	}
	if err := st.SendMsg(&healthpb.HealthCheckRequest{Service: service}); err != nil && err != io.EOF {
		return false, err
	}
	if err := st.CloseSend(); err != nil {
		return false, err
	}
	for ; ; answered = true {
		var r healthpb.HealthCheckResponse
		if err := st.RecvMsg(&r); err != nil {
			return answered, err
		}
		if r.Status == healthpb.HealthCheckResponse_SERVING {
			notify(connectivity.Ready, nil)
			continue
		}
		notify(connectivity.TransientFailure, fmt.Errorf("connection active but health check failed. status=%s", r.Status))
	}
}

// sleep waits for d; false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
