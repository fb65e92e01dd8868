package rpc

import (
	"sync"
	"sync/atomic"
	"time"
)

// workerIdle is how long a handler goroutine waits for another call before it
// ends.
const workerIdle = 10 * time.Second

// maxUnsent is how long a response may stay queued while the worker that queued it
// handles further calls of the same connection.
const maxUnsent = 50 * time.Microsecond

// workers runs calls on goroutines that have a grown stack already. Calls are queued,
// and as long as the queue is not empty there is a worker that has been woken and has
// not taken a call yet: a worker wakes another before it handles its call. So no call
// waits for the handler of another, however long that blocks, and yet calls that come
// together and are handled quickly wake one worker, not one each. The last to become
// idle is the first to be woken, because its stack and caches are the warmest.
type workers struct {
	// front is the connection of the first queued call; nil: the queue is empty.
	front atomic.Pointer[serverConn]

	mu       sync.Mutex
	first    *serverCall // the queue, linked by behind
	last     *serverCall
	coming   bool        // a worker has been woken or started and has not called next since
	unsent   *serverConn // where responses are queued that a worker is to send; or nil
	unsentAt time.Time   // since when
	idle     []*worker
	max      int
	closed   bool
	timer    *time.Timer // sweeps; nil before the first worker was idle
	swept    bool        // the timer is set
}

// worker is one goroutine that handles calls.
type worker struct {
	wake  chan struct{} // holds one; closed: the end
	call  *serverCall
	since time.Time // idle since; under workers.mu
}

func newWorkers(idle int) *workers { return &workers{max: idle} }

// run has c handled on another goroutine. It never blocks.
func (ws *workers) run(c *serverCall) {
	ws.mu.Lock()
	if ws.first == nil {
		ws.first = c
		ws.front.Store(c.conn)
	} else {
		ws.last.behind = c
	}
	ws.last = c
	w := ws.summon()
	ws.mu.Unlock()
	w.start(ws)
}

// summon returns a worker for the caller to start, or nil if one is coming already. mu
// is held.
func (ws *workers) summon() *worker {
	if ws.coming {
		return nil
	}
	ws.coming = true
	n := len(ws.idle)
	if n == 0 {
		return &worker{}
	}
	w := ws.idle[n-1]
	ws.idle[n-1] = nil
	ws.idle = ws.idle[:n-1]
	return w
}

// start wakes w, which summon has returned, or begins its goroutine.
func (w *worker) start(ws *workers) {
	switch {
	case w == nil:
	case w.wake == nil:
		w.wake = make(chan struct{}, 1)
		go w.loop(ws)
	default:
		w.wake <- struct{}{}
	}
}

func (w *worker) loop(ws *workers) {
	defer w.left()
	var unsent *serverConn
	for from := woken; ; from = busy {
		c, after := ws.next(w, from, unsent)
		for after == park {
			if !w.wait() {
				return
			}
			c, after = ws.next(w, woken, nil)
		}
		if after == end {
			return
		}
		w.call = c
		unsent = c.handle()
		w.call = nil
	}
}

// state says what a worker has done before it asks for a call, and what it does next.
type state uint8

const (
	woken state = iota // it has just been woken or started
	busy               // it has handled a call, or is to
	park               // it waits to be woken
	end                // its goroutine ends
)

// next returns the call that w handles next, or what it does instead. unsent is the
// connection on which its last call has left the response queued, or nil.
func (ws *workers) next(w *worker, from state, unsent *serverConn) (*serverCall, state) {
	for {
		ws.mu.Lock()
		if from == woken {
			ws.coming = false
		}
		c := ws.take()
		flush := ws.due(unsent, c)
		after := busy
		var other *worker
		switch {
		case c != nil:
			if ws.first != nil || ws.unsent != nil {
				// The handler may block: another worker takes what is left, and if that
				// is nothing, sends what is unsent.
				other = ws.summon()
			}
		case flush == [2]*serverConn{}:
			if after = end; ws.park(w) {
				after = park
			}
		}
		ws.mu.Unlock()
		other.start(ws)
		for _, conn := range flush {
			if conn != nil {
				conn.h2c.Flush()
			}
		}
		if c != nil || after != busy {
			return c, after
		}
		from, unsent = busy, nil
	}
}

// take takes the first call out of the queue. mu is held.
func (ws *workers) take() *serverCall {
	c := ws.first
	if c == nil {
		return nil
	}
	ws.first, c.behind = c.behind, nil
	if ws.first == nil {
		ws.last = nil
		ws.front.Store(nil)
	} else {
		ws.front.Store(ws.first.conn)
	}
	return c
}

// due returns the connections on which a worker must send what is queued before it
// handles c, or parks if that is nil; unsent is as in next. mu is held.
func (ws *workers) due(unsent *serverConn, c *serverCall) (flush [2]*serverConn) {
	if unsent == nil && ws.unsent == nil {
		return flush
	}
	switch {
	case unsent == nil || unsent == ws.unsent:
	case ws.unsent == nil:
		ws.unsent, ws.unsentAt = unsent, time.Now()
	default:
		flush[0] = unsent
	}
	if c == nil || c.conn != ws.unsent || time.Since(ws.unsentAt) > maxUnsent {
		flush[1], ws.unsent = ws.unsent, nil
	}
	return flush
}

// left ends the call whose handler has ended the goroutine with runtime.Goexit (as
// testing's FailNow does); on any other end of loop there is no call.
func (w *worker) left() {
	if w.call != nil {
		w.call.goexit()
	}
}

// warmFrame is the stack in bytes that a waiting worker occupies for nothing:
// the garbage collector halves a stack of which less than a quarter is in use,
// and the next call would have to grow it again.
const warmFrame = 4352

// wait waits to be woken; false at the end.
func (w *worker) wait() bool {
	var frame [warmFrame]byte
	occupy(&frame)
	_, more := <-w.wake
	occupy(&frame)
	return more
}

// occupy keeps the compiler from leaving the frame out.
//
//go:noinline
func occupy(frame *[warmFrame]byte) { frame[0]++ }

// park puts w among the idle; false says that it is not wanted any more. mu is held.
func (ws *workers) park(w *worker) bool {
	if ws.closed || len(ws.idle) >= ws.max {
		return false
	}
	now := time.Now()
	w.since = now
	ws.idle = append(ws.idle, w)
	if !ws.swept {
		ws.swept = true
		if ws.timer == nil {
			ws.timer = time.AfterFunc(workerIdle, ws.sweep)
		} else {
			ws.timer.Reset(workerIdle)
		}
	}
	return true
}

// sweep ends all goroutines that have been idle for workerIdle, and comes back
// for the rest.
func (ws *workers) sweep() {
	now := time.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	keep := ws.idle[:0]
	for _, w := range ws.idle {
		if now.Sub(w.since) >= workerIdle {
			close(w.wake)
			continue
		}
		keep = append(keep, w)
	}
	clear(ws.idle[len(keep):])
	ws.idle = keep
	if ws.swept = len(keep) > 0; ws.swept {
		ws.timer.Reset(workerIdle)
	}
}

// close ends the idle goroutines, and the busy ones when they are done.
func (ws *workers) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	if ws.timer != nil {
		ws.timer.Stop()
	}
	for _, w := range ws.idle {
		close(w.wake)
	}
	clear(ws.idle)
	ws.idle = nil
}
