package rpc

import (
	"io"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendMsg sends one message, waiting for the server's window. *tarn.Chain and
// *tarn.Buffer are sent as they are and emptied. io.EOF says that the call has
// ended: RecvMsg tells how.
func (cs *clientStream) SendMsg(v any) error {
	m, info, err := encodeMessage(cs.cc.opts.pool, cs.info.codec, cs.info.compressor, cs.info.maxSend, v)
	if err != nil {
		cs.finish(err)
		return err
	}
	cs.sendMu.Lock()
	if cs.closed {
		cs.sendMu.Unlock()
		m.Free()
		return errClosed
	}
	err = cs.sendLocked(m)
	cs.sendMu.Unlock()
	if err == nil && cs.statsOn() {
		cs.statsOutPayload(v, info)
	}
	if err == io.EOF && !cs.desc.ClientStreams {
		return nil
	}
	return err
}

// sendLocked takes ownership of m. sendMu is held.
func (cs *clientStream) sendLocked(m message.Message) error {
	if cs.isOver() {
		m.Free()
		return io.EOF
	}
	cs.keep(&m)
	out := h2.Out{Data: m.Buf, Rest: m.Chain}
	if !cs.desc.ClientStreams {
		cs.closed = true
		out.Ending = h2.End
	}
	a := cs.current()
	if a == nil {
		if err := cs.begin(out); err != nil {
			cs.finishLocked(err)
			return err
		}
		return nil
	}
	if a.st == nil { // the last attempt failed to open
		m.Free()
		return io.EOF
	}
	err := a.st.Write(cs.ctx, &out)
	if err == nil {
		return nil
	}
	a.mu.Lock()
	st := a.status
	a.mu.Unlock()
	if st == nil {
		st, _ = resetStatus(err)
	}
	if cs.ctx.Err() == nil && cs.againLocked(a, st.Err()) {
		return nil // m was among what was sent again
	}
	// Part of m may have gone: nothing may follow it, CloseSend's end least of all.
	a.reset(h2.Cancel)
	return io.EOF
}

// CloseSend says that no more messages follow. It returns nil.
func (cs *clientStream) CloseSend() error {
	cs.sendMu.Lock()
	defer cs.sendMu.Unlock()
	if cs.closed || cs.isOver() {
		return nil
	}
	cs.closed = true
	a := cs.current()
	if a == nil {
		if err := cs.begin(h2.Out{Ending: h2.End}); err != nil {
			cs.finishLocked(err)
		}
		return nil
	}
	if a.st != nil {
		// A failure shows in RecvMsg.
		_ = a.st.Write(cs.ctx, &h2.Out{Ending: h2.End})
	}
	return nil
}

// RecvMsg waits for one message. io.EOF says that the call ended well; any other
// error is its status.
func (cs *clientStream) RecvMsg(v any) error {
	if err := cs.outcome(); err != nil {
		return err
	}
	a, err := cs.started()
	if err != nil {
		return err
	}
	for {
		r := a.next()
		switch {
		case r.err == nil:
			return cs.receive(a, &r, v)
		case r.err != io.EOF:
			err := receiveError(&r, a.maxRecv, "receiving a message")
			cs.finish(err)
			return err
		}
		a.mu.Lock()
		st := a.status
		a.mu.Unlock()
		if st != nil && cs.again(a, st.Err()) {
			a = cs.current()
			continue
		}
		return cs.ended(a, st)
	}
}

// ended is what RecvMsg returns when there are no more messages.
func (cs *clientStream) ended(a *attempt, st *status.Status) error {
	err := cs.failure(st)
	if err == nil && !cs.desc.ServerStreams && !cs.gotOne {
		err = errNoReply
	}
	cs.finish(err)
	return cs.outcome()
}

// receive decodes a message, and for a call that has only one, the end after it.
func (cs *clientStream) receive(a *attempt, r *received, v any) error {
	cs.commitOnce()
	if cs.statsOn() && !cs.gotOne {
		cs.statsInHeader(a)
	}
	cs.gotOne = true
	comp, err := a.compressor()
	if err != nil {
		r.msg.Free()
		cs.finish(err)
		return err
	}
	n, err := decodeMessage(cs.cc.opts.pool, cs.info.codec, comp, a.maxRecv, r, v)
	if err != nil {
		cs.finish(err)
		return err
	}
	if cs.statsOn() {
		cs.statsInPayload(v, n, r)
	}
	if cs.desc.ServerStreams {
		return nil
	}
	next := a.next()
	switch {
	case next.err == nil:
		next.msg.Free()
		err = errManyReply
	case next.err != io.EOF:
		err = receiveError(&next, a.maxRecv, "receiving the status")
	default:
		a.mu.Lock()
		st := a.status
		a.mu.Unlock()
		err = cs.failure(st)
	}
	cs.finish(err)
	return err
}

func (cs *clientStream) commitOnce() {
	if cs.gotOne {
		return
	}
	// A SendMsg that waits for the server's window holds sendMu, and must not keep
	// this side from reading: it commits itself when it sees the header.
	if cs.sendMu.TryLock() {
		cs.commit()
		cs.sendMu.Unlock()
	}
}

// cancelled ends the stream with its context. It has a goroutine of its own.
func (cs *clientStream) cancelled() {
	st := status.FromContextError(cs.ctx.Err())
	cs.finish(st.Err())
}

// finish ends the stream, once.
func (cs *clientStream) finish(err error) {
	if !cs.markOver(err) {
		return
	}
	// A SendMsg that waits must be woken before its lock can be had.
	if !cs.sendMu.TryLock() {
		if a := cs.current(); a != nil {
			a.reset(h2.Cancel)
		}
		cs.sendMu.Lock()
	}
	cs.cleanUp(err)
	cs.sendMu.Unlock()
}

// finishLocked is finish for those who hold sendMu.
func (cs *clientStream) finishLocked(err error) {
	if cs.markOver(err) {
		cs.cleanUp(err)
	}
}

// markOver notes the result and wakes RecvMsg; false when it is over already.
func (cs *clientStream) markOver(err error) bool {
	cs.mu.Lock()
	if cs.over {
		cs.mu.Unlock()
		return false
	}
	cs.over, cs.result = true, err
	a, stop := cs.a, cs.stop
	cs.mu.Unlock()
	if stop != nil {
		stop()
	}
	if a != nil {
		a.mu.Lock()
		if !a.ended {
			st := status.Convert(err)
			if err == nil {
				st = status.New(codes.Canceled, "rpc: the call has been finished")
			}
			a.end(st)
		}
		a.mu.Unlock()
	}
	return true
}

// cleanUp releases everything. sendMu is held and the stream over.
func (cs *clientStream) cleanUp(err error) {
	cs.commit()
	a := cs.current()
	if a != nil {
		a.close()
		if cs.statsOn() {
			cs.statsEnd(a, err)
		}
	}
	cs.attemptEnded(a, err)
	cs.report(a, err)
}

// reset resets the attempt's stream without releasing it.
func (a *attempt) reset(code h2.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.st != nil && !a.abandoned {
		a.st.Reset(code)
	}
}
