package h2

import (
	"errors"
	"io"
	"net"
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

	readAt time.Time // what ReadAt returns; zero: it has not been asked since Run paused or run was set back
	hdr    Header    // what is handed to OnHeaders

	lander  Lander    // the Handler, or nil
	leaving bool      // the second GOAWAY is due: its PING has been answered
	between bool      // the next byte begins a frame
	frames  int       // since the connection was last waited for
	run     int       // frames since letWokenRun had enough of them or Run last waited, but for waits of pauseInFrame
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

// pause is called before Run waits for the next frame: it sends what the frames
// just read made this side queue.
func (c *Conn) pause() {
	c.in.run = 0
	if streams, handled := c.endBatch(nil); handled && c.cfg.ReadModeration == Permit {
		c.moderate(streams)
	}
}

// pauseInFrame is pause within a frame of the current stream, which stays current.
func (c *Conn) pauseInFrame() { c.endBatch(c.current) }

// endBatch ends the handling of the frames just read; current is the stream of which a frame is being read, or nil. It returns how many
// streams are open, and false if there were no such frames.
func (c *Conn) endBatch(current *Stream) (streams int, handled bool) {
	if !c.in.busy {
		return 0, false
	}
	c.in.busy, c.in.readAt = false, time.Time{}
	c.mu.Lock()
	c.handling = false
	more := c.noteHeard()
	c.setCurrent(current)
	c.send.flush(flushPromptly)
	streams = c.opened
	c.mu.Unlock()
	if more {
		c.limitChanged()
	}
	if c.batch != nil {
		c.batch.OnBatchEnd()
	}
	return streams, true
}

// ReadAt returns when the frame that is being handled was read, or one of the 64 before it that came together with it: the clock is read once
// for them. Only a Handler's method that is called on Run's goroutine may call it.
func (c *Conn) ReadAt() time.Time {
	if c.in.readAt.IsZero() {
		c.in.readAt = time.Now()
	}
	return c.in.readAt
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

// Why reading is delayed, and a connection ends when that has gone on.
const (
	tooManyResets  = "too many resets"
	tooManyRefused = "too many refused streams"
)

// fixed returns the payload of a frame that has n bytes, at most eight; another length ends the connection for reason.
func (c *Conn) fixed(f frame, n int, reason string) (payload [8]byte, err error) {
	if f.length != n {
		return payload, c.fault(FrameSizeError, reason)
	}
	p, err := c.peek(n)
	if err != nil {
		return payload, err
	}
	copy(payload[:], p)
	_, err = c.in.r.Discard(n)
	return payload, err
}

// countUseless counts a frame that carries nothing. c.mu is held: what this side sends, from
// any goroutine, clears the count.
func (c *Conn) countUseless() error {
	if !c.limiter.countUseless() {
		return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
	}
	return nil
}
