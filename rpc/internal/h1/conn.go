package h1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/internal/prefixed"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"github.com/tarn-go/tarn/wire"
)

// conn is one connection. Its goroutine reads requests and runs the handler.
type conn struct {
	srv    *Server
	nc     net.Conn
	in     *wire.Reader
	out    *wire.Writer
	common *http.Request // what all requests of the connection have
	cancel context.CancelFunc
	state  atomic.Int32
	ended  chan struct{} // closed when the goroutine has ended

	last     *head         // of the request before; nil: none, or a long one
	request  *http.Request // of last
	response response

	until time.Time // when what is being read must have come; zero: it may take forever
	armed time.Time // the read deadline that is set; zero: none. It is moved only when it has passed

	timer timers.Entry // while the handler runs

	mu       sync.Mutex
	stopped  sync.Cond // broadcast when watching becomes false
	handling bool      // the handler runs
	watching bool      // watch uses in
	aborting bool      // watch is to end
}

// The states of a connection.
const (
	waiting int32 = iota // for a request's head
	busy                 // with a request
	leaving              // the same, and the connection ends after it
	handed               // to HandOver
	over                 // the connection has been closed by Stop or Drain
)

// leave changes the state to next, or to over if the connection waits for a request, unless it has been handed over. It returns the state before.
func (c *conn) leave(next int32) (was int32) {
	for {
		was = c.state.Load()
		to := next
		if was == waiting {
			to = over
		}
		if was == handed || c.state.CompareAndSwap(was, max(was, to)) {
			return was
		}
	}
}

// maxRemembered is the longest head in bytes that is kept for the next request.
const maxRemembered = 1 << 10

// serve serves requests until the connection ends or is handed over.
func (c *conn) serve() {
	defer c.end()
	c.expect(after(c.srv.ReadTimeout))
	for c.next() {
		c.expect(after(c.srv.IdleTimeout))
	}
}

// after is the time in d; the zero time if there is no limit.
func after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// next serves the next request; false: there is none.
func (c *conn) next() bool {
	h, err := c.receiveHead()
	if err == nil {
		if !c.state.CompareAndSwap(waiting, busy) {
			return false
		}
		err = c.receiveBody(h)
	}
	switch {
	case errors.Is(err, errNotOrdinary), errors.Is(err, io.ErrUnexpectedEOF):
		c.handOver()
		return false
	case err != nil:
		return false
	}
	return c.answer(h) && c.state.CompareAndSwap(busy, waiting)
}

// receiveHead waits for a head, which it leaves in c.in.
func (c *conn) receiveHead() (*head, error) {
	for need := 1; ; {
		if _, err := c.in.Peek(need); err != nil {
			return nil, err
		}
		b, err := c.in.Peek(c.in.Buffered())
		if err != nil {
			return nil, err
		}
		if last := c.last; last != nil && len(b) >= len(last.text) && string(b[:len(last.text)]) == last.text {
			return last, nil
		}
		h, err := parse(b, c.srv.MaxHead, c.srv.Known)
		if err == nil {
			c.remember(h)
			return h, nil
		}
		if !errors.Is(err, errIncomplete) {
			return nil, err
		}
		if need == 1 {
			c.expect(after(c.srv.ReadTimeout))
		}
		need = len(b) + 1
	}
}

// remember keeps a head for the next request, and makes its http.Request.
func (c *conn) remember(h *head) {
	r := c.common.WithContext(c.common.Context())
	r.Host, r.RequestURI, r.URL = h.host, h.path, &url.URL{Path: h.path}
	r.ContentLength, r.Close = int64(h.length), h.ending == closing
	c.request = r
	if c.last = h; len(h.text) > maxRemembered {
		c.last = nil
	}
}

// receiveBody waits for the request's body, which it leaves in c.in, too.
func (c *conn) receiveBody(h *head) error {
	all := len(h.text) + h.length
	if c.in.Buffered() >= all {
		return nil
	}
	c.expect(after(c.srv.ReadTimeout))
	_, err := c.in.Peek(all)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errNotOrdinary // only its head had to come by then
	}
	return err
}

// answer runs the handler and sends the response. It reports whether another request may follow.
func (c *conn) answer(h *head) bool {
	if _, err := c.in.Discard(len(h.text)); err != nil {
		return false
	}
	body, err := c.in.Next(h.length)
	if err != nil {
		return false
	}
	c.response.start(h, body)
	c.beginWatch()
	c.srv.Handler.ServeHTTP(&c.response, c.request)
	c.endWatch()
	return c.response.finish()
}

// expect sets the time at which what is read next must have come.
func (c *conn) expect(until time.Time) {
	c.until = until
	if !until.IsZero() && (c.armed.IsZero() || until.Before(c.armed)) {
		c.arm(until)
	}
}

func (c *conn) arm(at time.Time) {
	c.armed = at
	_ = c.nc.SetReadDeadline(at) // a connection without deadlines waits as long as its peer does
}

// passed is called when the read deadline has passed.
func (c *conn) passed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborting || !c.until.IsZero() && !time.Now().Before(c.until) {
		return os.ErrDeadlineExceeded
	}
	c.arm(c.until)
	return nil
}

// watchAfter is how long a handler runs before its client is watched. A goroutine and two deadlines for each call would cost more than short
// calls do.
const watchAfter = 5 * time.Millisecond

// beginWatch begins to watch the client when the handler runs for long: a client that closes its connection ends the
// handler's context.
func (c *conn) beginWatch() {
	c.until = time.Time{}
	c.mu.Lock()
	c.handling = true
	c.mu.Unlock()
	c.timer.Set(time.Now().Add(watchAfter))
	c.srv.timers.Add(&c.timer, c)
}

// DeadlinePassed implements timers.Firer.
func (c *conn) DeadlinePassed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handling && !c.watching {
		c.watching = true
		go c.watch()
	}
}

// watch reads until a byte of the next request comes, as net/http does, or the connection ends.
func (c *conn) watch() {
	_, err := c.in.Peek(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.aborting {
		c.cancel()
	}
	c.watching, c.aborting = false, false
	c.stopped.Broadcast()
}

// endWatch ends the watching; c.in is the caller's again.
func (c *conn) endWatch() {
	c.srv.timers.Remove(&c.timer)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handling = false
	if !c.watching {
		return
	}
	c.aborting = true
	c.arm(time.Unix(1, 0))
	for c.watching {
		c.stopped.Wait()
	}
	c.arm(time.Time{})
}

// handOver passes the connection on, with what was read of it.
func (c *conn) handOver() {
	if !c.state.CompareAndSwap(waiting, handed) && !c.state.CompareAndSwap(busy, handed) {
		return
	}
	c.arm(time.Time{})
	// The bytes are buffered: Peek does not fail.
	b, _ := c.in.Peek(c.in.Buffered())
	if c.request != nil {
		b = withoutBreaks(b)
	}
	c.srv.HandOver(prefixed.Conn(c.nc, bytes.Clone(b)))
}

// withoutBreaks returns b without up to four bytes of line breaks, which old clients send after the body of a POST, and which net/http ignores
// there.
func withoutBreaks(b []byte) []byte {
	n := 0
	for n < min(len(b), 4) && (b[n] == '\r' || b[n] == '\n') {
		n++
	}
	return b[n:]
}

// end ends the connection. The handler may have panicked, or ended its goroutine.
func (c *conn) end() {
	if v := recover(); v != nil && v != http.ErrAbortHandler {
		log.Printf("rpc: panic serving %s: %v\n%s", c.common.RemoteAddr, v, debug.Stack())
	}
	c.endWatch()
	c.cancel()
	c.response.clear()
	c.in.Release()
	c.out.Release()
	if c.state.Load() != handed {
		c.nc.Close()
	}
	c.srv.remove(c)
	close(c.ended)
}
