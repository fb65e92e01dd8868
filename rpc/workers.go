package rpc

import (
	"sync"
	"time"
)

// workerIdle is how long a handler goroutine waits for another call before it
// ends.
const workerIdle = 10 * time.Second

// workers runs calls on goroutines that have a grown stack already. There is no
// queue: a call that finds no idle goroutine gets one of its own, which then
// stays for a while. The last to become idle is the first to be used again,
// because its stack and caches are the warmest.
type workers struct {
	mu     sync.Mutex
	idle   []*worker
	max    int
	closed bool
	timer  *time.Timer // sweeps; nil before the first worker was idle
	swept  bool        // the timer is set
}

// worker is one goroutine that handles calls.
type worker struct {
	next  chan *serverCall // holds one; closed: the end
	call  *serverCall
	since time.Time // idle since; under workers.mu
}

func newWorkers(idle int) *workers { return &workers{max: idle} }

// run handles c on another goroutine. It never blocks.
func (ws *workers) run(c *serverCall) {
	ws.mu.Lock()
	if n := len(ws.idle); n > 0 {
		w := ws.idle[n-1]
		ws.idle[n-1] = nil
		ws.idle = ws.idle[:n-1]
		ws.mu.Unlock()
		w.next <- c
		return
	}
	ws.mu.Unlock()
	w := &worker{next: make(chan *serverCall, 1)}
	go w.loop(ws, c)
}

func (w *worker) loop(ws *workers, c *serverCall) {
	defer w.left()
	for c != nil {
		w.call = c
		c.handle()
		w.call = nil
		if !ws.park(w) {
			return
		}
		c = w.wait()
	}
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

// wait returns the next call; nil at the end.
func (w *worker) wait() *serverCall {
	var frame [warmFrame]byte
	occupy(&frame)
	c := <-w.next
	occupy(&frame)
	return c
}

// occupy keeps the compiler from leaving the frame out.
//
//go:noinline
func occupy(frame *[warmFrame]byte) { frame[0]++ }

// park puts w among the idle; false says that it is not wanted any more.
func (ws *workers) park(w *worker) bool {
	now := time.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed || len(ws.idle) >= ws.max {
		return false
	}
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
			close(w.next)
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
		close(w.next)
	}
	clear(ws.idle)
	ws.idle = nil
}
