package h2

import (
	"encoding/binary"
	"log/slog"
)

// Shutdown ends the connection once its streams have ended and been released. A
// server announces it with two GOAWAYs, so that no request under way is lost. Between
// them are a PING and its answer, at most five seconds: the PING is sent at once if no
// stream is open, or else a second after the last one has ended. A client that sends
// nothing for 750 ms then, and takes nothing, is not waited for. A client opens no more
// streams and sends its GOAWAY last. They carry debug, of which at most 1 KiB is sent:
// why the connection ends, for the peer's logs. It does not wait: Run returns when the
// connection has ended.
func (c *Conn) Shutdown(debug string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shutdown(debug)
}

// shutdown is Shutdown. c.mu is held.
func (c *Conn) shutdown(debug string) {
	if !c.become(shutdownCalled, nil) {
		return
	}
	c.lifetime.begin(debug)
	if c.side == client {
		if c.inUse == 0 {
			c.endDrained()
		}
		return
	}
	c.putGoAway(maxStreamID, NoError, debug)
	c.announce()
	c.send.flush(flushWithRun)
}

// goAwayLast sends the second GOAWAY: no stream beyond lastID will be served. c.mu is
// held.
func (c *Conn) goAwayLast() {
	if !c.become(lastGoAwaySent, nil) {
		return
	}
	c.putGoAway(c.lastID, NoError, c.lifetime.debug())
	if c.inUse == 0 {
		c.endDrained()
	}
}

// answeredGoAway sends the second GOAWAY once what arrived together with the answer to its PING has been processed:
// clients send that answer ahead of requests that they made before. Whatever the peer does, the second GOAWAY is queued
// once, or the connection ends:
//
//	a stream is open                             no PING is sent before goAwayDelay after the last has ended
//	nothing follows the answer                   before Run waits for the next frame
//	part of a frame's header follows             before Run waits for the rest of it
//	part of a frame follows, or ever more input  by the timer of Shutdown, unless the rest arrives earlier
//	no answer                                    by the timer
//	the answer comes after the timer             it has no effect
//	the connection ends                          teardown stops the timer
func (c *Conn) answeredGoAway() {
	c.in.leaving = false
	c.lock() // what is queued leaves when Run pauses
	c.goAwayLast()
	c.mu.Unlock()
}

// endDrained ends a draining connection, whose streams have ended: what is queued is sent, then nothing more. Otherwise it does nothing.
// c.mu is held.
func (c *Conn) endDrained() {
	if !c.become(streamsEnded, ErrClosed) {
		return
	}
	if c.side == client {
		c.putGoAway(0, NoError, c.lifetime.debug())
	}
	c.send.flush(flushPromptly)
}

// Abort ends the connection with a GOAWAY of code and debug (at most 1 KiB of it
// is sent). Streams that are left fail with a *ConnError. It does not wait; Run
// returns within a quarter of a second, or half a second where closing the
// net.Conn takes longer than a quarter, as with TLS over a full socket.
func (c *Conn) Abort(code Code, debug string) {
	c.abort(code, debug, &ConnError{Code: code, Reason: debug})
}

// Close ends the connection at once with a GOAWAY of NO_ERROR. Streams that are
// left fail with ErrClosed. It does not wait and its error is always nil.
func (c *Conn) Close() error {
	c.abort(NoError, "", ErrClosed)
	return nil
}

func (c *Conn) abort(code Code, debug string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAwayAndEnd(code, debug, why)
}

// goAwayAndEnd has a GOAWAY be the last that is sent, and ends the connection within abortTimeout, unless it ends already; then it is not
// waited for longer than that. It reports whether it has queued the GOAWAY. c.mu is held.
func (c *Conn) goAwayAndEnd(code Code, debug string, why error) (queued bool) {
	if queued = c.become(aborted, why); queued {
		c.putGoAway(c.lastID, code, debug)
		c.send.flush(flushPromptly)
	}
	c.limitEnd()
	return queued
}

// onGoAway takes a GOAWAY (RFC 9113 section 6.8): streams beyond its last were not
// processed and are handed back.
func (c *Conn) onGoAway(f frame) error {
	if f.id != 0 {
		return c.fault(ProtocolError, "GOAWAY on a stream")
	}
	if f.length < 8 {
		return c.fault(FrameSizeError, "GOAWAY shorter than 8")
	}
	n := min(f.length, 8+maxDebug)
	p, err := c.peek(n)
	if err != nil {
		return err
	}
	why := &GoAwayError{
		Last:  binary.BigEndian.Uint32(p) & (1<<31 - 1),
		Code:  Code(binary.BigEndian.Uint32(p[4:])),
		Debug: string(p[8:n]),
	}
	if err := c.discard(f.length); err != nil {
		return err
	}
	c.lock()
	if !c.limiter.countUseless() {
		c.mu.Unlock()
		return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
	}
	if c.goAway != nil && why.Last > c.goAway.Last {
		c.mu.Unlock()
		return c.fault(ProtocolError, "GOAWAY that takes back the one before")
	}
	c.goAway = why
	var lost []*Stream
	c.become(goAwayReceived, nil)
	if c.side == client {
		for s := range c.streams.all() {
			if s.id > why.Last {
				lost = append(lost, s)
			}
		}
	}
	c.mu.Unlock()
	c.counters.countGoAway(&c.counters.received, why.Code)
	if c.events != nil {
		c.events.OnGoAway(c, why)
	}
	for _, s := range lost {
		c.fail(s, beyondGoAway, why)
	}
	c.lock()
	if c.inUse == 0 {
		c.endDrained()
	}
	c.mu.Unlock()
	level := slog.LevelDebug
	if why.Code != NoError && !c.warned { // once: a peer may send them as fast as it can
		level, c.warned = slog.LevelWarn, true
	}
	c.log(level, "h2: GOAWAY received", why.Code, why.Debug) // a slow logger delays no stream's end
	return nil
}
