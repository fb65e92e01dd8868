package balance

import (
	"context"
	"errors"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/signal"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pickers holds the balancer's current picker.
type pickers struct {
	picker balancer.Picker // nil while the client is IDLE or resolving

	mu       sync.Mutex
	replaced bool
	changed  signal.Signal // when another replaces it
}

func newPickers(p balancer.Picker) *pickers { return &pickers{picker: p} }

// next is closed when another picker replaces p's.
func (p *pickers) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changed.Next()
	if p.replaced {
		p.changed.Notify()
	}
	return c
}

// replace closes what next has returned and will return.
func (p *pickers) replace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaced = true
	p.changed.Notify()
}

// setPicker makes waiting calls pick again.
func (ch *Channel) setPicker(p balancer.Picker) {
	next := newPickers(p)
	for {
		old := ch.picker.Load()
		if _, closed := old.picker.(closedPicker); closed {
			return
		}
		if ch.picker.CompareAndSwap(old, next) {
			old.replace()
			return
		}
	}
}

// closedPicker ends the calls of a closed client.
type closedPicker struct{}

// Pick implements balancer.Picker.
func (closedPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, ErrClosing
}

// ErrorPicker ends every call with an error, or makes it wait.
type ErrorPicker struct{ Err error }

// Pick implements balancer.Picker.
func (p ErrorPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, p.Err
}

// Pick is a balancer's choice for one attempt of a call.
type Pick struct {
	Conn Conn
	Done func(balancer.DoneInfo) // may be nil; to be called once, when the attempt has ended
	MD   metadata.MD             // for the request's header
	How  PickKind
}

// PickKind says how a Pick has come about.
type PickKind uint8

const (
	AtOnce  PickKind = iota // by the picker that was there
	Delayed                 // the call has waited for a picker
	Dropped                 // the balancer has ended the call: it is not tried again
)

// Patience says what a call does while its target cannot be reached.
type Patience uint8

const (
	FailFast     Patience = iota // it fails with UNAVAILABLE
	WaitForReady                 // it waits
)

// Pick asks the balancer for a connection, and waits while it has none. The error is a status, or ErrClosing.
func (ch *Channel) Pick(ctx context.Context, method string, how Patience) (Pick, error) {
	p := ch.picker.Load()
	var last error
	if p.picker != nil {
		if r, err := p.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx}); err == nil {
			if c := connOf(&r); c != nil {
				return Pick{Conn: c, Done: r.Done, MD: r.Metadata}, nil
			}
		} else if v, over := pickError(err, how); over {
			return v.of(err)
		} else {
			last = err
		}
	}
	return ch.pickSlow(ctx, method, how, p, last)
}

// connOf returns the connection of a pick; nil when it has ended: then the pick is invalid, and another
// picker follows.
func connOf(r *balancer.PickResult) Conn {
	if s, ok := r.SubConn.(*SubConn); ok {
		if c := s.conn.Load(); c != nil {
			return *c
		}
	}
	if r.Done != nil {
		r.Done(balancer.DoneInfo{})
	}
	return nil
}

// pickSlow waits for a picker after seen, which has answered with last. If the call's time ends first, its error contains the last reason
// why it waited.
func (ch *Channel) pickSlow(ctx context.Context, method string, how Patience, seen *pickers, last error) (Pick, error) {
	defer ch.CallWaits()()
	if errors.Is(last, balancer.ErrNoSubConnAvailable) {
		last = nil
	}
	for {
		if seen.picker == nil {
			if _, _, err := ch.names.activate(ch); err != nil {
				return Pick{}, err
			}
		}
		select {
		case <-seen.next():
		case <-ctx.Done():
			return Pick{}, WaitedError(ctx, last)
		}
		seen = ch.picker.Load()
		if seen.picker == nil {
			continue
		}
		r, err := seen.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx})
		if err == nil {
			if c := connOf(&r); c != nil {
				return Pick{Conn: c, Done: r.Done, MD: r.Metadata, How: Delayed}, nil
			}
			continue
		}
		if v, over := pickError(err, how); over {
			return v.of(err)
		}
		if !errors.Is(err, balancer.ErrNoSubConnAvailable) {
			last = err
		}
	}
}

// pickVerdict says what a picker's error means for a call.
type pickVerdict uint8

const (
	pickDrops pickVerdict = iota // it becomes the call's status
	pickFails                    // UNAVAILABLE
)

// pickError decides on a picker's error; false when the call waits for the next
// picker.
func pickError(err error, how Patience) (pickVerdict, bool) {
	if err == balancer.ErrNoSubConnAvailable {
		return 0, false
	}
	if _, ok := status.FromError(err); ok {
		return pickDrops, true
	}
	return pickFails, how == FailFast
}

func (v pickVerdict) of(err error) (Pick, error) {
	if v == pickFails {
		return Pick{}, status.Error(codes.Unavailable, err.Error())
	}
	if Restricted(status.Code(err)) {
		err = status.Errorf(codes.Internal, "received picker error with illegal status: %v", err)
	}
	return Pick{How: Dropped}, err
}

// WaitedError is the error of a call whose time ended before there was a connection.
func WaitedError(ctx context.Context, last error) error {
	st := status.FromContextError(ctx.Err())
	if last == nil {
		return status.Errorf(st.Code(), "%s while waiting for connections to become ready", st.Message())
	}
	return status.Errorf(st.Code(), "%s while waiting for connections to become ready: latest balancer error: %v", st.Message(), last)
}

// Restricted reports whether a control plane may not end a call with c (gRFC A54).
func Restricted(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition,
		codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}
