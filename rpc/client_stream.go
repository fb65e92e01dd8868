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

// clientStream is a streaming call: a grpc.ClientStream over a series of attempts, which ends when the server
// has answered one. It is the same over every carrier.
type clientStream struct {
	call
	desc     *grpc.StreamDesc
	stop     func() bool // ends the watch on the context, and on the client's end; nil without one; under mu
	phase    streamPhase
	received bool // a message has been received; used by RecvMsg only

	// sendMu is held while anything is sent, and while one attempt replaces
	// another.
	sendMu    sync.Mutex
	replay    []message.Message  // messages that may have to be sent again
	firstKept [1]message.Message // the first array of replay: a call with one request needs no other
	replayLen int
	closed    bool // the caller has half-closed
	reported  bool // the end of the current attempt, which could not be opened
	usedFirst bool // first has been used

	mu       sync.Mutex
	prepared bool    // now is connected, and is opened together with the request; changed while sendMu is held, too
	now      attempt // nil: there is none, or it is being replaced; changed while sendMu is held, too
	result   error   // the call's error, once it has ended; nil: OK

	first grpcAttempt // over gRPC; most calls have no other: it needs no memory of its own
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream begins a streaming call. It ends with the first error of RecvMsg
// (io.EOF included), with ctx, or with Close of the client: one of these must
// happen. Generated stubs call it.
func (cc *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if cc.around.stream != nil {
		return cc.interceptStream(ctx, desc, method, opts)
	}
	return cc.newStream(ctx, desc, method, cc.given(opts))
}

func (cc *ClientConn) newStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts callOptions) (grpc.ClientStream, error) {
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
	cs.watch()
	return nil
}

// watch ends the stream when its context ends. Over HTTP it also does when the client is closed; over gRPC the connection ends then.
func (cs *clientStream) watch() {
	var stop func() bool
	if cs.ctx.Done() != nil {
		stop = context.AfterFunc(cs.ctx, cs.cancelled)
	}
	if w := cs.cc.web; w != nil {
		stop = both(stop, context.AfterFunc(w.closed, func() { cs.finish(ErrClientConnClosing) }))
	}
	cs.mu.Lock()
	cs.stop = stop
	cs.mu.Unlock()
	if stop != nil && cs.isOver() { // before stop was set
		stop()
	}
}

// both calls first, if it is not nil, and second.
func both(first, second func() bool) func() bool {
	return func() bool {
		if first != nil {
			first()
		}
		return second()
	}
}

// newAttempt returns one over the carrier of the client's protocol.
func (cs *clientStream) newAttempt() attempt {
	switch w := cs.cc.web; {
	case w != nil:
		return &webAttempt{x: w.exchange(&cs.call, kindOf(cs.desc))}
	case cs.usedFirst:
		return new(grpcAttempt)
	}
	cs.usedFirst = true
	return &cs.first
}

// begin opens the first attempt with out, and another when out was never sent. It reports whether out has been sent. sendMu is held.
func (cs *clientStream) begin(out h2.Out) (sent bool, err error) {
	a := cs.now
	if !cs.prepared {
		a = cs.newAttempt()
	}
	for ; ; a = cs.newAttempt() {
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

// prepare connects the first attempt, and does so again when that has failed. sendMu is held.
func (cs *clientStream) prepare() error {
	a := cs.newAttempt()
	for {
		err := cs.connect(a)
		if err == nil {
			cs.mu.Lock()
			cs.now, cs.prepared = a, true
			cs.mu.Unlock()
			return nil
		}
		if !cs.mayRetry(a, err, maybeProcessed) {
			return err
		}
	}
}

// connect begins the attempt a, unless it is the prepared one, and connects it. sendMu is held.
func (cs *clientStream) connect(a attempt) error {
	if !cs.prepared {
		cs.retry.count()
		if cs.statsOn() {
			ctx := cs.statsTag()
			cs.mu.Lock()
			cs.tagged = ctx // which Context reads
			cs.mu.Unlock()
			cs.statsBegun(kindOf(cs.desc))
		}
	}
	cs.replace(nil)
	err := a.connect(&cs.call)
	if err != nil && cs.statsOn() {
		a.statsEnd(&cs.call, err)
	}
	return err
}

// open opens the attempt a with out. sendMu is held.
func (cs *clientStream) open(a attempt, out h2.Out) (progress, error) {
	connected := false
	defer func() {
		if !connected { // an error, or a hook has panicked
			freeOut(&out)
		}
	}()
	if err := cs.connect(a); err != nil {
		return maybeProcessed, err
	}
	connected = true
	seen, err := a.open(&cs.call, out)
	if err != nil {
		if cs.statsOn() {
			a.statsEnd(&cs.call, err)
		}
		cs.attemptEnded(nil, err)
		return seen, err
	}
	// If the call was cancelled meanwhile, the goroutine that did it waits for sendMu and releases this
	// attempt.
	cs.replace(a)
	return maybeProcessed, nil
}

// mayRetry decides on another attempt after a's end, and waits for its time. sendMu is held.
func (cs *clientStream) mayRetry(a attempt, err error, seen progress) (again bool) {
	if cs.phase.get() != replayable || cs.ctx.Err() != nil || a.answered() {
		return false
	}
	last := err
	if seen == unreached && cs.info.waitForReady {
		again, last = cs.awaitServer(err)
	} else {
		again, last = cs.await(cs.retry.judge(status.Code(err), seen, a.trailerMD()), err)
	}
	if !again && last != err {
		cs.markOver(last) // RecvMsg would return the attempt's status
	}
	return again
}

func (cs *clientStream) isOver() bool { return cs.phase.get() >= over }

// current is the attempt that has been opened last; nil: there is none, or it is being replaced.
func (cs *clientStream) current() attempt {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.prepared {
		return nil
	}
	return cs.now
}

// replace makes a the current attempt. sendMu is held.
func (cs *clientStream) replace(a attempt) {
	cs.mu.Lock()
	cs.now, cs.prepared = a, false
	cs.mu.Unlock()
}

// again replaces an attempt that has ended by another and sends all messages to it. It returns the one to continue with; nil: there is
// none.
func (cs *clientStream) again(ended attempt, err error) attempt {
	cs.lockSend(ended)
	defer cs.sendMu.Unlock()
	if goesOn, _ := cs.againLocked(ended, err); !goesOn {
		return nil
	}
	return cs.current() // without the lock there may be none: it may have ended and be replaced
}

// lockSend locks sendMu. A SendMsg that holds it may wait until a, which has ended, takes its message: it is interrupted.
func (cs *clientStream) lockSend(a attempt) {
	if cs.sendMu.TryLock() {
		return
	}
	if a != nil {
		a.interrupt()
	}
	cs.sendMu.Lock()
}

// againLocked is again; it also reports whether the new attempt has been sent all messages. sendMu is held.
func (cs *clientStream) againLocked(ended attempt, err error) (goesOn, sent bool) {
	if cs.current() != ended {
		return !cs.isOver(), false
	}
	_, seen := ended.ended()
	if !cs.mayRetry(ended, err, seen) {
		// SendMsg has told the caller to stop: the messages so far must not become a call with all of them.
		cs.commit()
		return false, false
	}
	ended.release()
	if cs.statsOn() {
		ended.statsEnd(&cs.call, err)
	}
	cs.attemptEnded(ended, err)
	cs.replace(nil)
	return true, cs.replayAll()
}

// replayAll opens an attempt and sends it all kept messages, and reports whether it has. If opening fails, the attempt has ended and its
// status says why. sendMu is held.
func (cs *clientStream) replayAll() bool {
	for {
		a := cs.newAttempt()
		out, whole := cs.wholeRequest()
		seen, err := cs.open(a, out)
		switch {
		case err == nil && whole:
			return true
		case err == nil:
			return cs.replayTo(a)
		case cs.mayRetry(a, err, seen):
			continue
		}
		a.abort(status.Convert(err))
		cs.replace(a)
		cs.reported = true
		cs.phase.advance(committed)
		return false
	}
}

// wholeRequest is what an attempt is opened with: all of the request if that is complete and of one message, otherwise nothing.
func (cs *clientStream) wholeRequest() (out h2.Out, whole bool) {
	if !cs.closed || len(cs.replay) > 1 {
		return h2.Out{}, false
	}
	out.Ending = h2.End
	if len(cs.replay) == 1 {
		m := cs.replay[0].Ref()
		out.Data, out.Rest = m.Buf, m.Chain
	}
	return out, true
}

// replayTo sends a all kept messages, and reports whether it has. A failure ends a, or the call's context has ended.
func (cs *clientStream) replayTo(a attempt) bool {
	for i := range cs.replay {
		m := cs.replay[i].Ref()
		if a.write(cs.ctx, h2.Out{Data: m.Buf, Rest: m.Chain}) != nil {
			return false
		}
	}
	if cs.closed {
		_ = a.write(cs.ctx, h2.Out{Ending: h2.End})
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
		st, _ := a.ended()
		if st == nil {
			return nil, nil
		}
		next := cs.again(a, st.Err())
		if next == nil {
			break // a may have a header that came with its status
		}
		a = next
	}
	cs.phase.advance(committed)
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
	if a := cs.current(); a != nil {
		if p := a.server(); p != nil {
			return peer.NewContext(ctx, p)
		}
	}
	return ctx
}

// started opens the stream of a call without client streaming whose caller asks for the response before it
// has sent the request.
func (cs *clientStream) started() (attempt, error) {
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
