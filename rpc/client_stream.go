package rpc

import (
	"context"
	"io"
	"sync"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// clientStream is a streaming call: grpc.ClientStream over one attempt after
// another until the server has answered one.
type clientStream struct {
	call
	desc *grpc.StreamDesc
	stop func() bool // ends the watch on the context; nil without one

	// sendMu is held while anything is sent, and while one attempt replaces
	// another.
	sendMu    sync.Mutex
	replay    []message.Message // what was sent and may have to be sent again
	replayLen int
	committed bool // no other attempt will follow
	closed    bool // the caller has half-closed

	mu     sync.Mutex
	a      *attempt // nil until opened
	over   bool
	result error // how it ended; io.EOF for well

	gotOne bool // a message has been received; RecvMsg's own
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream begins a streaming call. It ends with the first error of RecvMsg
// (io.EOF included), with ctx, or with Close of the client: one of these must
// happen. Generated stubs call it.
func (cc *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if cc.stream != nil {
		return cc.stream(ctx, desc, cc.shadow, method, cc.streamer, cc.withDefaults(opts)...)
	}
	return cc.newStream(ctx, desc, method, opts)
}

func (cc *ClientConn) newStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption) (grpc.ClientStream, error) {
	cs := &clientStream{desc: desc}
	if err := cs.init(cc, ctx, method, opts); err != nil {
		cs.report(nil, err)
		return nil, err
	}
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	var err error
	if desc.ClientStreams {
		err = cs.begin(h2.Out{})
	} else {
		// Header and request leave together when the request is there; that the
		// target can be reached is found out now, as callers expect.
		_, err = cs.connection()
	}
	if err != nil {
		cs.over = true
		cs.report(cs.a, err)
		return nil, err
	}
	if cs.ctx.Done() != nil {
		cs.mu.Lock()
		cs.stop = context.AfterFunc(cs.ctx, cs.cancelled)
		cs.mu.Unlock()
	}
	return cs, nil
}

// begin opens the first attempt with out, and another when it never left.
// sendMu is held.
func (cs *clientStream) begin(out h2.Out) error {
	for {
		a, seen, err := cs.open1(out)
		if err == nil || !cs.mayRetry(a, err, seen) {
			return err
		}
		if out.Data.Len() > 0 || out.Rest != nil {
			// The messages went with the failed attempt; their copies remain.
			return cs.replayAll()
		}
	}
}

// open1 makes one attempt. sendMu is held.
func (cs *clientStream) open1(out h2.Out) (*attempt, sight, error) {
	cs.retry.count()
	a := &attempt{ready: make(chan struct{}, 1), maxRecv: cs.info.maxRecv}
	if cs.statsOn() {
		cs.statsBegin(kindOf(cs.desc))
	}
	conn, err := cs.connection()
	if err != nil {
		out.Data.Free()
		if out.Rest != nil {
			out.Rest.Free()
		}
		if cs.statsOn() {
			cs.statsEnd(a, err)
		}
		return a, maybeSeen, err
	}
	seen, err := cs.call.open(a, conn, &out)
	if err != nil {
		a.abandon()
		if cs.statsOn() {
			cs.statsEnd(a, err)
		}
		cs.attemptEnded(nil, err)
		return a, seen, err
	}
	// If the call was cancelled meanwhile, who did it waits for sendMu and will
	// close this attempt.
	cs.mu.Lock()
	cs.a = a
	cs.mu.Unlock()
	return a, maybeSeen, nil
}

// mayRetry decides on another attempt after a's end, and waits for its time.
// sendMu is held.
func (cs *clientStream) mayRetry(a *attempt, err error, seen sight) bool {
	if cs.committed || cs.ctx.Err() != nil || cs.isOver() {
		return false
	}
	a.mu.Lock()
	answered := a.header != nil
	a.mu.Unlock()
	if answered {
		return false
	}
	v := cs.retry.judge(status.Code(err), seen, a.trailerMD())
	return v.again && cs.wait(v.wait)
}

func (cs *clientStream) isOver() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.over
}

func (cs *clientStream) current() *attempt {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.a
}

// again replaces a failed attempt by another and sends it what has been sent; it
// reports whether there is one to go on with.
func (cs *clientStream) again(failed *attempt, err error) bool {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	return cs.againLocked(failed, err)
}

func (cs *clientStream) againLocked(failed *attempt, err error) bool {
	if cs.current() != failed {
		return !cs.isOver()
	}
	failed.mu.Lock()
	seen := failed.seen
	failed.mu.Unlock()
	if !cs.mayRetry(failed, err, seen) {
		return false
	}
	failed.close()
	if cs.statsOn() {
		cs.statsEnd(failed, err)
	}
	cs.attemptEnded(failed, err)
	cs.mu.Lock()
	cs.a = nil
	cs.mu.Unlock()
	return cs.replayAll() == nil
}

// replayAll opens an attempt and sends it all that is kept. sendMu is held.
func (cs *clientStream) replayAll() error {
	for {
		a, seen, err := cs.open1(h2.Out{})
		if err == nil {
			err = cs.replayTo(a)
			if err == nil {
				return nil
			}
			// Sending failed: the attempt's own end says why, to RecvMsg too.
			return nil
		}
		if !cs.mayRetry(a, err, seen) {
			cs.mu.Lock()
			cs.a = a
			cs.mu.Unlock()
			a.mu.Lock()
			if !a.ended {
				a.end(status.Convert(err))
			}
			a.mu.Unlock()
			cs.committed = true
			return nil
		}
	}
}

func (cs *clientStream) replayTo(a *attempt) error {
	for i := range cs.replay {
		m := cs.replay[i].Ref()
		out := h2.Out{Data: m.Buf, Rest: m.Chain}
		if err := a.st.Write(cs.ctx, &out); err != nil {
			return err
		}
	}
	if cs.closed {
		return a.st.Write(cs.ctx, &h2.Out{Ending: h2.End})
	}
	return nil
}

// keep stores a reference to m for another attempt, unless none will follow or
// too much is stored. sendMu is held.
func (cs *clientStream) keep(m *message.Message) {
	if cs.committed {
		return
	}
	if a := cs.current(); a != nil {
		a.mu.Lock()
		answered := a.header != nil
		a.mu.Unlock()
		if answered {
			cs.commit()
			return
		}
	}
	cs.replayLen += m.Len()
	if cs.replayLen > cs.info.replay {
		cs.commit()
		return
	}
	cs.replay = append(cs.replay, m.Ref())
}

// commit gives up other attempts. sendMu is held.
func (cs *clientStream) commit() {
	cs.committed = true
	for i := range cs.replay {
		cs.replay[i].Free()
	}
	cs.replay = nil
}

// Header waits for the response's header. It is nil, without an error, when the
// call ended without one; RecvMsg then tells how.
func (cs *clientStream) Header() (metadata.MD, error) {
	a, err := cs.started()
	if err != nil {
		return nil, nil
	}
	for {
		a.waitHeader()
		a.mu.Lock()
		has, st := a.header != nil, a.status
		a.mu.Unlock()
		if has || st == nil || !cs.again(a, st.Err()) {
			break
		}
		a = cs.current()
	}
	if a.header == nil {
		return nil, nil
	}
	return a.headerMD(), nil
}

// Trailer is the trailer once RecvMsg has returned an error.
func (cs *clientStream) Trailer() metadata.MD {
	if a := cs.current(); a != nil {
		return a.trailerMD()
	}
	return nil
}

// Context is the call's context, with the peer in it once there is one.
func (cs *clientStream) Context() context.Context {
	if a := cs.current(); a != nil && a.conn != nil {
		return peer.NewContext(cs.tagged, &a.conn.peer)
	}
	return cs.tagged
}

// started opens the stream of a call without client streaming whose caller asks
// for the response before it has sent the request.
func (cs *clientStream) started() (*attempt, error) {
	if a := cs.current(); a != nil {
		return a, nil
	}
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	if a := cs.current(); a != nil {
		return a, nil
	}
	if err := cs.outcome(); err != nil {
		return nil, err
	}
	if err := cs.begin(h2.Out{}); err != nil {
		cs.finishLocked(err)
		return nil, err
	}
	return cs.current(), nil
}

// cardinality errors, worded as grpc-go words them.
var (
	errNoReply   = status.Error(codes.Internal, "cardinality violation: received no response message from non-server-streaming RPC")
	errManyReply = status.Error(codes.Internal, "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message")
	errClosed    = status.Error(codes.Internal, "SendMsg called after CloseSend")
)

// outcome is how the stream ended, once it has.
func (cs *clientStream) outcome() error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.over {
		return nil
	}
	if cs.result == nil {
		return io.EOF
	}
	return cs.result
}
