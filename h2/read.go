package h2

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"time"
)

// loop reads frames until something ends the connection, or it rests.
func (c *Conn) loop() error {
	c.makeReader()
	c.in.r.OnDeadline(c.onDeadline)
	greeted := c.peer.greeted // the connection has rested
	if greeted {
		c.mu.Lock()
		c.polled, c.rest, c.idleBackoff = 0, notResting, 0
		c.watch()
		c.watchPeer(c.untilAsked())
		c.mu.Unlock()
	}
	if c.side == server && !greeted && !c.prefaceRead {
		p, err := c.peek(len(Preface))
		if err != nil {
			return err
		}
		if !bytes.Equal(p, []byte(Preface)) {
			return c.fault(ProtocolError, "no HTTP/2 preface")
		}
		if _, err := c.in.r.Discard(len(Preface)); err != nil {
			return err
		}
	}
	for first := !greeted; ; first = false {
		if c.in.leaving && c.in.r.Buffered() < frameHeaderLen {
			c.answeredGoAway()
		}
		if limit := int32(c.cfg.Limits.Starting); c.starts.n.Load() >= limit {
			c.pause()
			c.starts.wait(limit)
		}
		if c.in.delay != "" {
			if err := c.delayReading(); err != nil {
				return err
			}
		}
		c.letWokenRun()
		c.in.between = true
		p, err := c.peek(frameHeaderLen)
		if err != nil {
			return err
		}
		c.in.between, c.in.active = false, true
		c.in.frames++
		c.in.run++
		f := parseFrame(p)
		if first && c.side == client && bytes.HasPrefix(p, []byte("HTTP/1.")) {
			return c.fault(ProtocolError, "the server speaks HTTP/1.1")
		}
		if first && (f.typ != frameSettings || f.has(flagAck)) {
			return c.fault(ProtocolError, "the first frame is not SETTINGS")
		}
		if f.length > c.cfg.MaxFrameSize {
			return c.fault(FrameSizeError, "a frame longer than offered")
		}
		if _, err := c.in.r.Discard(frameHeaderLen); err != nil {
			return err
		}
		if err := c.dispatch(f); err != nil {
			var se *StreamError
			if !errors.As(err, &se) {
				return err
			}
			if err := c.streamFault(f.id, se); err != nil {
				return err
			}
		}
	}
}

// delayReading waits before the next frame is read, because the peer resets streams faster
// than Limits.Resets permits, or opens streams that are refused faster than
// Limits.Useless and Limits.Replies permit.
func (c *Conn) delayReading() error {
	why := c.in.delay
	c.in.delay = ""
	c.mu.Lock()
	ok, first := c.limiter.countDelay(now()), c.limiter.delays == 1
	c.mu.Unlock()
	if !ok {
		return c.fault(EnhanceYourCalm, why)
	}
	if first {
		c.log(slog.LevelWarn, "h2: connection is read more slowly", EnhanceYourCalm, why)
	}
	c.pause()
	time.Sleep(delayTime)
	return nil
}

func (c *Conn) dispatch(f frame) error {
	switch f.typ {
	case frameData:
		return c.onData(f)
	case frameHeaders:
		return c.onHeaders(f)
	case frameWindow:
		return c.onWindow(f)
	case frameSettings:
		return c.onSettings(f)
	case framePing:
		return c.onPing(f)
	case frameReset:
		return c.onReset(f)
	case frameGoAway:
		return c.onGoAway(f)
	case framePriority:
		return c.onPriority(f)
	case framePush:
		return c.fault(ProtocolError, "PUSH_PROMISE, which was not permitted")
	case framePriorityUpdate:
		return c.onPriorityUpdate(f)
	case frameContinuation:
		return c.fault(ProtocolError, "CONTINUATION after nothing")
	}
	c.mu.Lock()
	err := c.countUseless()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.discard(f.length)
}

// streamFault resets a stream because of what the peer did on it, and calls OnReset.
func (c *Conn) streamFault(id uint32, se *StreamError) error {
	if h, ok := c.h.(FaultHandler); ok && se.Fault == Peer {
		h.OnStreamFault(se)
	}
	c.lock()
	within := c.limiter.countReply()
	if se.Fault == Peer {
		if within = c.limiter.countBroken() && within; !within {
			c.mu.Unlock()
			return c.fault(EnhanceYourCalm, "too many broken streams")
		}
	} else if within = c.limiter.countRefused() && within; !within {
		if c.send.queued() >= refuseAbove {
			c.mu.Unlock()
			return c.fault(EnhanceYourCalm, "the peer does not read")
		}
		c.in.delay = tooManyRefused
	}
	s := c.stream(id)
	c.setCurrent(s)
	if s == nil {
		kind, o := resetStream, inTurn // of a stream that has ended: its end may be queued
		if se.Code == RefusedStream {
			kind, o = refusedStream, ahead // nothing has been sent on it
		}
		c.putReset(id, o, se.Code)
		c.remember(id, kind)
		c.mu.Unlock()
		return nil
	}
	tell := c.advance(s, peerFault, &ending{se, se.Code})
	c.mu.Unlock()
	if tell {
		c.h.OnReset(s, se)
	}
	return nil
}

// letWokenRun is called between two frames. When many were read together, it lets the goroutines run that their callbacks have woken:
// a client's callers send their next requests and a server's handlers their responses, and the other end works on these, while the
// rest is delivered. docs/design/h2.md has what it is worth. When no further frame has come, Run pauses next, and sends what is queued.
// The goroutines that a BatchHandler wakes come later.
func (c *Conn) letWokenRun() {
	after := clientYield
	if c.side == server {
		after = serverYield
	}
	if c.in.run < after {
		return
	}
	c.in.run, c.in.readAt = 0, time.Time{}
	if c.batch == nil && c.in.r.Buffered() >= frameHeaderLen {
		runtime.Gosched()
	}
}
