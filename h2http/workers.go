package h2http

import (
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

const (
	// workerIdle is how long a handler's goroutine waits for another request before it
	// ends.
	workerIdle = 10 * time.Second
	// maxIdleWorkers is how many wait at most.
	maxIdleWorkers = 1024
)

// workers runs handlers on goroutines whose stack has grown already. There is no
// queue: a request that finds no idle worker gets a goroutine of its own, which is
// then kept for a while. The worker that became idle last is used first, because its
// stack and caches are the warmest.
type workers struct {
	mu    sync.Mutex
	idle  []*worker
	timer *time.Timer // sweeps; nil before the first worker was idle
	swept bool        // the timer is set
}

// worker is one goroutine that runs handlers, and the scratch space that it lends to
// the exchange it is on.
type worker struct {
	next   chan *exchange // holds one; closed: the worker ends
	since  time.Time      // idle since; under workers.mu
	fields []h2.Field     // header lists on their way out
	chain  tarn.Chain     // content on its way out; empty between writes
	length cachedLength
}

// run handles x on another goroutine. It does not block.
func (ws *workers) run(x *exchange) {
	ws.mu.Lock()
	if n := len(ws.idle); n > 0 {
		w := ws.idle[n-1]
		ws.idle[n-1] = nil
		ws.idle = ws.idle[:n-1]
		ws.mu.Unlock()
		w.next <- x
		return
	}
	ws.mu.Unlock()
	w := &worker{next: make(chan *exchange, 1)}
	go w.loop(ws, x)
}

func (w *worker) loop(ws *workers, x *exchange) {
	for x != nil {
		x.serve(w)
		if !ws.park(w) {
			return
		}
		x = w.wait()
	}
}

// warmFrame is the stack in bytes that a waiting worker occupies: the garbage
// collector halves a stack of which less than a quarter is in use, and the next
// handler would have to grow it again.
const warmFrame = 4352

// wait returns the next request; nil when the worker is to end.
func (w *worker) wait() *exchange {
	var frame [warmFrame]byte
	occupy(&frame)
	x := <-w.next
	occupy(&frame)
	return x
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
	if len(ws.idle) >= maxIdleWorkers {
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

// sweep ends the workers that have been idle for workerIdle, and is run again while
// others are idle.
func (ws *workers) sweep() { ws.end(time.Now().Add(-workerIdle)) }

// end ends the workers that have been idle since before then.
func (ws *workers) end(then time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	keep := ws.idle[:0]
	for _, w := range ws.idle {
		if w.since.After(then) {
			keep = append(keep, w)
			continue
		}
		close(w.next)
	}
	clear(ws.idle[len(keep):])
	ws.idle = keep
	if ws.swept = len(keep) > 0; ws.swept {
		ws.timer.Reset(workerIdle)
	}
}
