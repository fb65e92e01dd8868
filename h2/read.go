package h2

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/tarn-go/tarn/h2/internal/hpack"
	"github.com/tarn-go/tarn/wire"
)

// reading is what belongs to Run alone.
type reading struct {
	r    *wire.Reader
	dec  hpack.Decoder
	frag []byte // a header block that takes several frames
	self bool   // the stream of the HEADERS depends on itself
	busy bool   // Conn.handling may be set

	readAt      time.Time // what ReadAt returns, until Run pauses; zero: it has not been asked since
	readAtFrame int       // frames when it was set
	hdr         Header    // what is handed to OnHeaders

	lander  Lander    // the Handler, or nil
	leaving bool      // the second GOAWAY is due: its PING has been answered
	between bool      // the next byte begins a frame
	frames  int       // since the connection was last waited for
	run     int       // frames since Run last waited, or let others run
	paused  time.Time // when that was; with ReadModeration
	delay   string    // why reading is to be delayed; empty: it is not
	active  bool      // a frame has come since the last deadline
	until   time.Time // how long an idle connection waits for input; zero: for ever

	early map[uint32]Priority // of streams that are not open yet; nil: none; while there are any, the connection does not become idle
}

// makeReader makes what only Run needs.
func (c *Conn) makeReader() {
	c.in = &reading{r: wire.NewReader(c.nc, c.cfg.Pool)}
	c.in.r.SetSizes(wire.IdleWait, c.cfg.MaxRead)
	c.in.lander, _ = c.h.(Lander)
	limits := hpack.Limits{List: c.cfg.MaxHeaderList, Fields: c.cfg.Limits.Fields}
	if c.side == client || c.cfg.FieldBlanks == Permit {
		limits.Blanks = hpack.BlanksKept
	}
	c.in.dec.Init(limits, c.packed)
	c.packed = ""
}

// loop reads frames until something ends the connection, or it is idle.
func (c *Conn) loop() error {
	c.makeReader()
	c.in.r.OnDeadline(c.onDeadline)
	greeted := c.peer.greeted // the connection has been idle
	if greeted {
		c.mu.Lock()
		c.polled = 0
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

// Why reading is delayed, and a connection ends when that has gone on.
const (
	tooManyResets  = "too many resets"
	tooManyRefused = "too many refused streams"
)

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

// peek waits for n bytes. What was queued is sent before it waits.
func (c *Conn) peek(n int) ([]byte, error) {
	if c.in.r.Buffered() < n {
		c.pause()
		p, err := c.in.r.Peek(n)
		if err == nil { // becoming idle is an error, too
			c.noteReceived()
		}
		return p, err
	}
	return c.in.r.Peek(n)
}

// discard skips n bytes of a frame's payload. What was queued is sent before it waits.
func (c *Conn) discard(n int) error {
	for {
		m, err := c.in.r.Discard(min(n, c.in.r.Buffered()))
		if n -= m; n == 0 || err != nil {
			return err
		}
		if _, err := c.peek(1); err != nil {
			return unexpected(err)
		}
	}
}

// pause is called before Run waits for the network: it sends what the frames
// just read made this side queue.
func (c *Conn) pause() {
	c.in.run = 0
	if !c.in.busy {
		return
	}
	c.in.busy, c.in.readAt = false, time.Time{}
	c.mu.Lock()
	c.handling = false
	more := c.noteHeard()
	c.setCurrent(nil)
	c.send.flush(flushPromptly)
	streams := c.opened
	c.mu.Unlock()
	if more {
		c.limitChanged()
	}
	if c.batch != nil {
		c.batch.OnBatchEnd()
	}
	if c.cfg.ReadModeration == Permit {
		c.moderate(streams)
	}
}

// ReadAt returns when the frame that is being handled was read, or one of the 64 before it that came together with it: the clock is read once
// for them. Only a Handler's method that is called on Run's goroutine may call it.
func (c *Conn) ReadAt() time.Time {
	in := c.in
	if in.readAt.IsZero() || in.frames-in.readAtFrame >= serverYield {
		in.readAt, in.readAtFrame = time.Now(), in.frames
	}
	return in.readAt
}

// limitChanged tells a client's Handler that StreamLimit has changed. c.mu is not held.
func (c *Conn) limitChanged() {
	if h, ok := c.h.(LimitHandler); ok {
		h.OnStreamLimit(c)
	}
}

// lock takes c.mu for Run and notes that Run handles frames it has read. After the
// last of them it flushes.
func (c *Conn) lock() {
	c.mu.Lock()
	c.handling = true
	c.in.busy = true
}

// fault returns the error that ends a connection because of what the peer did.
func (c *Conn) fault(code Code, reason string) error {
	return &ConnError{Code: code, Fault: Peer, Reason: reason}
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

// pauseInFrame is pause within a frame of the current stream, which stays current.
func (c *Conn) pauseInFrame() {
	if !c.in.busy {
		return
	}
	c.in.busy, c.in.readAt = false, time.Time{}
	c.mu.Lock()
	c.handling = false
	more := c.noteHeard()
	c.send.flush(flushPromptly)
	c.mu.Unlock()
	if more {
		c.limitChanged()
	}
	if c.batch != nil {
		c.batch.OnBatchEnd()
	}
}

// unexpected turns io.EOF within a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isEnd reports whether a read failed because the connection has ended in order.
func isEnd(err error) bool {
	return err == io.EOF || errors.Is(err, net.ErrClosed)
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
	if c.in.run >= after && c.batch == nil && c.in.r.Buffered() >= frameHeaderLen {
		c.in.run = 0
		runtime.Gosched()
	}
}
