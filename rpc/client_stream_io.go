package rpc

import (
	"io"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendMsg sends one message and waits for the server's window. A *tarn.Chain or *tarn.Buffer is sent as it is
// and emptied. io.EOF means that the call has ended: RecvMsg returns the error.
func (cs *clientStream) SendMsg(v any) error {
	m, info, err := encodeMessage(cs.cc.opts.pool, cs.info.sender(v), cs.info.compressor, cs.info.maxSend, v)
	if err != nil {
		cs.finish(err)
		return err
	}
	cs.seen.set(sending)
	defer cs.seen.set(working)
	report, err := cs.sendMessage(m)
	if report != nil {
		report(v, info)
	}
	if err == io.EOF && !cs.desc.ClientStreams {
		return nil
	}
	return err
}

// sendMessage takes ownership of m. It returns the function that reports m to the statistics handlers; nil: there are none, or m has not been
// sent, and if the error is nil, RecvMsg returns the reason.
func (cs *clientStream) sendMessage(m message.Message) (report func(any, payloadInfo), err error) {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock() // also if a hook panics
	sent, err := cs.sendLocked(m)
	if sent && cs.statsOn() {
		report = cs.current().statsSent(&cs.call)
	}
	return report, err
}

// sendLocked is sendMessage; it reports whether m has been sent. sendMu is held.
func (cs *clientStream) sendLocked(m message.Message) (sent bool, err error) {
	if cs.closed {
		m.Free()
		cs.finishLocked(errClosed) // an incorrect use of the stream ends the call
		return false, errClosed
	}
	if cs.isOver() || cs.contextEnded() {
		m.Free()
		return false, io.EOF
	}
	cs.keep(&m)
	out := h2.Out{Data: m.Buf, Rest: m.Chain}
	if !cs.desc.ClientStreams {
		cs.closed = true
		out.Ending = h2.End
	}
	a := cs.current()
	if a == nil {
		if sent, err = cs.begin(out); err != nil {
			cs.finishLocked(err)
		}
		return sent, err
	}
	if cs.phase.get() >= broken {
		m.Free()
		return false, io.EOF
	}
	if a.write(cs.ctx, out) == nil {
		return true, nil
	}
	// The attempt has ended or is about to, as its connection has; or the context has, which ends the call.
	if !a.waitEnd(cs.ctx.Done()) {
		cs.phase.advance(broken)
		return false, io.EOF
	}
	if st, _ := a.ended(); st != nil {
		if goesOn, sent := cs.againLocked(a, st.Err()); goesOn {
			return sent, nil // m was among the messages that were sent again
		}
	}
	return false, io.EOF
}

// CloseSend ends the sequence of requests. It returns nil.
func (cs *clientStream) CloseSend() error {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	if cs.closed || cs.isOver() || cs.contextEnded() {
		return nil
	}
	cs.closed = true
	a := cs.current()
	if a == nil {
		if _, err := cs.begin(h2.Out{Ending: h2.End}); err != nil {
			cs.finishLocked(err)
		}
		return nil
	}
	if cs.phase.get() < broken {
		// RecvMsg returns the error.
		_ = a.write(cs.ctx, h2.Out{Ending: h2.End})
	}
	return nil
}

// RecvMsg waits for one message. io.EOF means that the call succeeded; any other error is its status.
func (cs *clientStream) RecvMsg(v any) error {
	if cs.ctx.Err() != nil {
		cs.cancelled()
	}
	if err := cs.outcome(); err != nil {
		cs.finish(nil)
		return err
	}
	cs.seen.set(receiving)
	defer cs.seen.set(working)
	a, err := cs.started()
	if err != nil {
		return err
	}
	for {
		if cs.selected.commits() && a.waitHeader(nil) {
			cs.selected.commit() // now, and not with the first message, which may come much later
		}
		r := a.next()
		switch r.err {
		case nil:
			return cs.receive(a, &r, v)
		case io.EOF, errStatus:
		default:
			return cs.refuse(a, &r)
		}
		st, _ := a.ended()
		if st != nil {
			if next := cs.again(a, st.Err()); next != nil {
				a = next
				continue
			}
		}
		return cs.ended(a, st)
	}
}

// refuse ends the call because of what the server sent.
func (cs *clientStream) refuse(a attempt, r *received) error {
	cs.finish(a.refusal(*r, cs.info.maxRecv))
	return cs.outcome()
}

// ended is what RecvMsg returns when there are no more messages.
func (cs *clientStream) ended(a attempt, st *status.Status) error {
	err := cs.failure(st)
	if err == nil && !cs.desc.ServerStreams && !cs.received {
		err = a.refusal(received{err: errNoMessage}, cs.info.maxRecv)
	}
	cs.finish(err)
	return cs.outcome()
}

// receive takes ownership of the message in r and decodes it; for a call that has only one, it also receives
// the end.
func (cs *clientStream) receive(a attempt, r *received, v any) error {
	defer r.msg.Free() // unless it has been decoded; also if a hook panics
	cs.commitOnce()
	if cs.statsOn() {
		a.statsInHeader(&cs.call)
	}
	cs.received = true
	comp, err := a.decompressor(r.kind, &cs.info)
	if err != nil {
		cs.finish(err)
		return err
	}
	cs.info.lease.renew() // the message before this one
	n, err := decodeMessage(cs.cc.opts.pool, cs.info.codec, comp, cs.info.maxRecv, r, cs.info.lease.memory(), v)
	cs.info.lease.keep()
	if err != nil {
		cs.finish(err)
		return err
	}
	a.decoded(v)
	if cs.statsOn() {
		cs.statsInPayload(v, n, r)
	}
	if cs.desc.ServerStreams {
		return nil
	}
	after := a.next()
	switch after.err {
	case nil:
		after.msg.Free()
		return cs.refuse(a, &received{err: errTwoMessages})
	case io.EOF, errStatus:
		st, _ := a.ended()
		err = cs.failure(st)
		cs.finish(err)
		return err
	default:
		return cs.refuse(a, &after)
	}
}

func (cs *clientStream) commitOnce() {
	if cs.received {
		return
	}
	cs.phase.advance(committed)
	// A SendMsg that waits for the server's window holds sendMu, and must not prevent this goroutine from
	// reading: the next one frees what is kept.
	if cs.sendMu.TryLock() {
		cs.commit()
		cs.sendMu.Unlock()
	}
}

// cancelled ends the stream when its context ends. It runs in its own goroutine, which may be scheduled after
// other calls of the stream: these check the context, too.
func (cs *clientStream) cancelled() { cs.finish(cs.contextError()) }

// contextError is the error of a call whose context has ended. If the call waits for a server that cannot be reached, it says why.
func (cs *clientStream) contextError() error {
	if a := cs.current(); a != nil && cs.info.waitForReady {
		if st, seen := a.ended(); seen == unreached {
			return balance.WaitedError(cs.ctx, st.Err())
		}
	}
	return status.FromContextError(cs.ctx.Err()).Err()
}

// contextEnded ends the stream if its context has ended, and reports whether it has: the server must not take
// the requests of a cancelled call for complete. sendMu is held.
func (cs *clientStream) contextEnded() bool {
	err := cs.ctx.Err()
	if err != nil {
		cs.finishLocked(cs.contextError())
	}
	return err != nil
}

// finish ends the stream, unless it has ended, and returns when its memory has been freed.
func (cs *clientStream) finish(err error) {
	cs.markOver(err)
	cs.lockSend(cs.current())
	defer cs.sendMu.Unlock()
	cs.cleanUp()
}

// finishLocked is finish; sendMu is held.
func (cs *clientStream) finishLocked(err error) {
	cs.markOver(err)
	cs.cleanUp()
}

// statusFinished ends the attempt of a call that has ended, if that has not ended. It is never changed.
var statusFinished = status.New(codes.Canceled, "rpc: the call has been finished")

// markOver stores the result and wakes RecvMsg, unless that has been done.
func (cs *clientStream) markOver(err error) {
	cs.mu.Lock()
	if cs.isOver() {
		cs.mu.Unlock()
		return
	}
	cs.result = err
	cs.phase.advance(over)
	stop := cs.stop
	cs.mu.Unlock()
	if stop != nil {
		stop()
	}
	if a := cs.current(); a != nil {
		st := statusFinished
		if err != nil {
			st = status.Convert(err)
		}
		a.abort(st)
	}
}

// cleanUp releases everything, once. sendMu is held and the stream has ended.
func (cs *clientStream) cleanUp() {
	if !cs.phase.advance(released) {
		return
	}
	cs.commit()
	a := cs.current()
	if a != nil {
		a.release()
	}
	if cs.statsOn() {
		switch {
		case cs.prepared:
			cs.now.statsEnd(&cs.call, cs.result)
		case a != nil && !cs.reported:
			a.statsEnd(&cs.call, cs.result)
		}
	}
	var last outcome
	if a != nil {
		last = a
	}
	cs.attemptEnded(last, cs.result)
	cs.report(last, cs.result)
}
