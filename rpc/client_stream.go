package rpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// clientStream is a streaming call: a grpc.ClientStream over a series of attempts, which ends when the server
// has answered one.
type clientStream struct {
	call
	desc     *grpc.StreamDesc
	stop     func() bool // ends the watch on the context; nil without one
	phase    streamPhase
	received bool // a message has been received; used by RecvMsg only

	// sendMu is held while anything is sent, and while one attempt replaces
	// another.
	sendMu    sync.Mutex
	replay    []message.Message  // messages that may have to be sent again
	firstKept [1]message.Message // the first array of replay: a call with one request needs no other
	replayLen int
	closed    bool     // the caller has half-closed
	prepared  *attempt // has a connection, and its stream is opened together with the request; nil: none

	a atomic.Pointer[attempt] // nil until opened; set while sendMu is held

	mu     sync.Mutex
	result error // the call's error, once it has ended; nil: OK

	first attempt // most calls have no other: it needs no memory of its own
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream begins a streaming call. It ends with the first error of RecvMsg
// (io.EOF included), with ctx, or with Close of the client: one of these must
// happen. Generated stubs call it.
func (cc *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if is := &cc.around; is.stream != nil {
		return is.stream(ctx, desc, is.conn, method, is.streamer, cc.withDefaults(opts)...)
	}
	return cc.newStream(ctx, desc, method, cc.given(opts))
}

func (cc *ClientConn) newStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts callOptions) (grpc.ClientStream, error) {
	if cc.web != nil {
		return cc.web.newStream(ctx, desc, method, opts)
	}
	cs := &clientStream{desc: desc}
	if err := cs.init(cc, ctx, method, opts); err != nil {
		cs.report(nil, err)
		return nil, err
	}
	if cs.selected.intercepted() {
		return cs.streamIntercepted(desc)
	}
	if err := cs.start(); err != nil {
		return nil, err
	}
	return cs, nil
}

// start opens the stream, or checks that it can be opened. On error the call has ended.
func (cs *clientStream) start() error {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	var err error
	if cs.desc.ClientStreams {
		_, err = cs.begin(h2.Out{})
	} else {
		// The header is sent together with the request; whether the target can be reached is checked now, as
		// callers expect.
		err = cs.prepare()
	}
	if err != nil {
		cs.finishLocked(err)
		return err
	}
	cs.seen.set(working) // the caller does not receive yet
	if cs.ctx.Done() != nil {
		cs.mu.Lock()
		cs.stop = context.AfterFunc(cs.ctx, cs.cancelled)
		cs.mu.Unlock()
	}
	return nil
}

// begin opens the first attempt with out, and another when out was never sent. It reports whether out has been sent. sendMu is held.
func (cs *clientStream) begin(out h2.Out) (sent bool, err error) {
	for a := &cs.first; ; a = new(attempt) {
		seen, err := cs.open(a, out)
		if err == nil || !cs.mayRetry(a, err, seen) {
			return err == nil, err
		}
		if out.Data.Len() > 0 || out.Rest != nil {
			// The failed attempt owned the messages; their copies remain.
			return cs.replayAll(), nil
		}
	}
}

// prepare begins the first attempt, without a stream, and another when there was no connection for it. sendMu is held.
func (cs *clientStream) prepare() error {
	for {
		_, err := cs.connect(&cs.first)
		if err == nil {
			cs.prepared = &cs.first
			return nil
		}
		if !cs.mayRetry(&cs.first, err, maybeProcessed) {
			return err
		}
	}
}

// connect begins the attempt a, unless it is the prepared one, and picks its connection. sendMu is held.
func (cs *clientStream) connect(a *attempt) (*clientConn, error) {
	if cs.prepared == nil {
		cs.retry.count()
		a.limit, a.gate.own.woken = cs.info.maxRecv, cs.cc.wakeUps.get()
		if cs.statsOn() {
			ctx := cs.statsTag()
			cs.mu.Lock()
			cs.tagged = ctx // which Context reads
			cs.mu.Unlock()
			cs.statsBegun(kindOf(cs.desc))
		}
	}
	cs.prepared = nil
	conn, err := cs.connection()
	if err != nil && cs.statsOn() {
		cs.statsEnd(a, err)
	}
	return conn, err
}

// open opens the attempt a with out. sendMu is held.
func (cs *clientStream) open(a *attempt, out h2.Out) (progress, error) {
	defer freeOut(&out)
	conn, err := cs.connect(a)
	if err != nil {
		return maybeProcessed, err
	}
	seen, err := cs.call.open(a, conn, &out)
	if err != nil {
		a.close()
		if cs.statsOn() {
			cs.statsEnd(a, err)
		}
		cs.attemptEnded(nil, err)
		return seen, err
	}
	// If the call was cancelled meanwhile, the goroutine that did it waits for sendMu and releases this
	// attempt.
	cs.a.Store(a)
	return maybeProcessed, nil
}

// mayRetry decides on another attempt after a's end, and waits for its time. sendMu is held.
func (cs *clientStream) mayRetry(a *attempt, err error, seen progress) bool {
	if cs.phase.get() != replayable || cs.ctx.Err() != nil || a.answered() {
		return false
	}
	v := cs.retry.judge(status.Code(err), seen, a.trailerMD())
	again, err := cs.await(v, err)
	if v.again && !again {
		cs.markOver(err) // RecvMsg would return the attempt's status
	}
	return again
}

func (cs *clientStream) isOver() bool { return cs.phase.get() >= over }

func (cs *clientStream) current() *attempt { return cs.a.Load() }

// again replaces an attempt that has ended by another and sends all messages to it. It returns the one to continue with; nil: there is
// none.
func (cs *clientStream) again(ended *attempt, err error) *attempt {
	cs.lockSend(ended)
	defer cs.sendMu.Unlock()
	if goesOn, _ := cs.againLocked(ended, err); !goesOn {
		return nil
	}
	return cs.current() // without the lock there may be none: it may have ended and be replaced
}

// lockSend locks sendMu. A SendMsg that holds it may wait for the window of a, which has ended: resetting its
// stream wakes it.
func (cs *clientStream) lockSend(a *attempt) {
	if cs.sendMu.TryLock() {
		return
	}
	if a != nil {
		a.reset(h2.Cancel)
	}
	cs.sendMu.Lock()
}

// againLocked is again; it also reports whether the new attempt has been sent all messages. sendMu is held.
func (cs *clientStream) againLocked(ended *attempt, err error) (goesOn, sent bool) {
	if cs.current() != ended {
		return !cs.isOver(), false
	}
	_, seen := ended.outcome()
	if !cs.mayRetry(ended, err, seen) {
		// SendMsg has told the caller to stop: the messages so far must not become a call with all of them.
		cs.commit()
		return false, false
	}
	ended.release()
	if cs.statsOn() {
		cs.statsEnd(ended, err)
	}
	cs.attemptEnded(ended, err)
	cs.a.Store(nil)
	return true, cs.replayAll()
}

// replayAll opens an attempt and sends it all kept messages, and reports whether it has. If opening fails, the attempt has ended and its
// status says why. sendMu is held.
func (cs *clientStream) replayAll() bool {
	for {
		a := new(attempt)
		seen, err := cs.open(a, h2.Out{})
		if err == nil {
			return cs.replayTo(a)
		}
		if !cs.mayRetry(a, err, seen) {
			cs.a.Store(a)
			a.mu.Lock()
			a.finishWith(status.Convert(err))
			a.mu.Unlock()
			cs.phase.advance(committed)
			return false
		}
	}
}

// replayTo sends a all kept messages, and reports whether it has. A failure ends a, or the call's context has ended.
func (cs *clientStream) replayTo(a *attempt) bool {
	for i := range cs.replay {
		m := cs.replay[i].Ref()
		if a.write(cs.ctx, &h2.Out{Data: m.Buf, Rest: m.Chain}) != nil {
			return false
		}
	}
	if cs.closed {
		_ = a.write(cs.ctx, &h2.Out{Ending: h2.End})
	}
	return true
}

// keep stores a reference to m for another attempt, unless none will follow or too much is stored. sendMu is
// held.
func (cs *clientStream) keep(m *message.Message) {
	cs.replayLen += m.Len()
	a := cs.current()
	if cs.phase.get() != replayable || a != nil && a.answered() || cs.replayLen > cs.info.replay {
		cs.commit()
		return
	}
	if cs.replay == nil {
		cs.replay = cs.firstKept[:0]
	}
	cs.replay = append(cs.replay, m.Ref())
}

// commit ends the call's right to further attempts, and frees the messages kept for them. sendMu is held.
func (cs *clientStream) commit() {
	cs.phase.advance(committed)
	cs.selected.commit()
	for i := range cs.replay {
		cs.replay[i].Free()
	}
	cs.replay = nil
}

// Header waits for the response's header. It is nil, without an error, when the call ended without one;
// RecvMsg then returns the error.
func (cs *clientStream) Header() (metadata.MD, error) {
	a, err := cs.started()
	if err != nil {
		return nil, nil
	}
	for !a.waitHeader(nil) {
		st, _ := a.outcome()
		if st == nil {
			return nil, nil
		}
		if a = cs.again(a, st.Err()); a == nil {
			return nil, nil
		}
	}
	cs.selected.commit()
	return a.headerMD(), nil
}

// Trailer is the trailer once RecvMsg has returned an error.
func (cs *clientStream) Trailer() metadata.MD {
	if a := cs.current(); a != nil {
		return a.trailerMD()
	}
	return nil
}

// Context is the call's context, with the peer in it once there is one. From then on the call is not tried again, as package grpc says of
// ClientStream: another attempt might have another peer.
func (cs *clientStream) Context() context.Context {
	cs.phase.advance(committed)
	cs.mu.Lock()
	ctx := cs.tagged
	cs.mu.Unlock()
	if a := cs.current(); a != nil && a.conn != nil {
		return peer.NewContext(ctx, &a.conn.peer)
	}
	return ctx
}

// started opens the stream of a call without client streaming whose caller asks for the response before it
// has sent the request.
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
		cs.cleanUp()
		return nil, err
	}
	if _, err := cs.begin(h2.Out{}); err != nil {
		cs.finishLocked(err)
		return nil, err
	}
	return cs.current(), nil
}

var errClosed = status.Error(codes.Internal, "SendMsg called after CloseSend")

// outcome is the call's error, once it has ended.
func (cs *clientStream) outcome() error {
	if !cs.isOver() {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.result == nil {
		return io.EOF
	}
	return cs.result
}
