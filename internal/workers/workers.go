// Package workers runs the handlers of HTTP/2 servers on goroutines whose stacks have
// grown already, and lets responses that are ready together leave together.
package workers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
)

const (
	// maxIdle is how long a worker waits for another job before its goroutine ends.
	maxIdle = 10 * time.Second
	// maxUnsent is how long a response may stay queued while the worker that queued it
	// handles further jobs of the same connection.
	maxUnsent = 50 * time.Microsecond
	// perWorker is how many queued jobs there are for each worker that has been woken and
	// has not taken one yet, before another is woken. With one worker for any number of
	// jobs, the jobs of one read were handled on one processor while another was idle, and
	// waited behind every other runnable goroutine whenever that worker did.
	perWorker = 4
)

// Job is one request: a pointer type J whose struct embeds a Link[J].
type Job[J any] interface {
	comparable
	// Conn is the connection that the job came on.
	Conn() *h2.Conn
	// Handle runs the handler. It reports whether it has left the end of the response
	// queued (h2.Stream.WriteLater), which the pool then sends.
	Handle(w *Worker[J]) (unsent bool)
	// Exited is called when Handle has ended its goroutine (runtime.Goexit).
	Exited()

	link() *Link[J]
}

// Link is a job's place in the queue of a Pool.
type Link[J any] struct{ behind J }

func (l *Link[J]) link() *Link[J] { return l }

// Pool runs jobs. They are queued, and as long as the queue is not empty there is a
// worker that has been woken and has not taken a job yet: a worker wakes another before
// it handles its job. So no job waits for the handler of another, however long that
// blocks, and yet jobs that come together and are handled quickly wake one worker for each
// four of them, not one each. The worker that became idle last is woken first, because its
// stack and caches are the warmest. Its methods are safe for concurrent use.
type Pool[J Job[J]] struct {
	// front is the connection of the first queued job; nil: the queue is empty.
	front atomic.Pointer[h2.Conn]

	mu       sync.Mutex
	first    J // the queue, linked by behind
	last     J
	queued   int       // its length
	coming   int       // workers that have been woken or started and have not called next yet
	unsent   *h2.Conn  // where responses are queued that a worker is to send; or nil
	unsentAt time.Time // since when
	idle     []*Worker[J]
	max      int
	closed   bool
	timer    *time.Timer // sweeps; nil before the first worker was idle
	swept    bool        // the timer is set
}

// Worker is one goroutine that handles jobs.
type Worker[J any] struct {
	scratch any // see Scratch

	wake  chan struct{} // holds one; closed: the end
	job   J
	since time.Time // idle since; under Pool.mu
}

// Scratch returns memory of w for the job that Handle is called for. It stays for the next one, whose content it has then. A worker
// is asked for one type only.
func Scratch[S, J any](w *Worker[J]) *S {
	s, ok := w.scratch.(*S)
	if !ok {
		s = new(S)
		w.scratch = s
	}
	return s
}

// New returns a Pool that keeps idle workers at most.
func New[J Job[J]](idle int) *Pool[J] { return &Pool[J]{max: idle} }

// Run has j handled on another goroutine. It does not block.
func (p *Pool[J]) Run(j J) {
	var none J
	p.mu.Lock()
	if p.first == none {
		p.first = j
		p.atFront(j.Conn())
	} else {
		p.last.link().behind = j
	}
	p.last = j
	p.queued++
	w := p.enlist()
	p.mu.Unlock()
	p.start(w)
}

// Next returns the connection of the job that will be taken next; nil: none is queued. A
// handler whose own connection that is may leave its response queued.
func (p *Pool[J]) Next() *h2.Conn { return p.front.Load() }

// SendUnsent has the response sent that Handle has left queued on c and before whose end it may block, or not return: by the worker that has been
// woken for the next job, or at once. Handle reports false then.
func (p *Pool[J]) SendUnsent(c *h2.Conn) {
	var none J
	p.mu.Lock()
	leave := p.first != none && (p.unsent == nil || p.unsent == c)
	if leave && p.unsent == nil {
		p.unsent, p.unsentAt = c, time.Now()
	}
	p.mu.Unlock()
	if !leave {
		c.Flush()
	}
}

// enlist returns a worker for the caller to start, or nil if enough are coming already. mu
// is held.
func (p *Pool[J]) enlist() *Worker[J] {
	if p.coming > 0 && p.coming*perWorker >= p.queued {
		return nil
	}
	p.coming++
	n := len(p.idle)
	if n == 0 {
		return &Worker[J]{}
	}
	w := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return w
}

// start wakes w, which enlist has returned, or begins its goroutine.
func (p *Pool[J]) start(w *Worker[J]) {
	switch {
	case w == nil:
	case w.wake == nil:
		w.wake = make(chan struct{}, 1)
		go p.loop(w)
	default:
		w.wake <- struct{}{}
	}
}

func (p *Pool[J]) loop(w *Worker[J]) {
	defer p.exited(w)
	var none J
	var unsent *h2.Conn
	for from := woken; ; from = busy {
		j, after := p.next(w, from, unsent)
		for after == park {
			if !w.wait() {
				return
			}
			j, after = p.next(w, woken, nil)
		}
		if after == end {
			return
		}
		w.job, unsent = j, nil
		if j.Handle(w) {
			unsent = j.Conn()
		}
		w.job = none
	}
}

// state says what a worker has done before it asks for a job, and what it does next.
type state uint8

const (
	woken state = iota // it has just been woken or started
	busy               // it has handled a job, or is to
	park               // it waits to be woken
	end                // its goroutine ends
)

// next returns the job that w handles next, or what it does instead. unsent is the
// connection on which its last job has left the response queued, or nil.
func (p *Pool[J]) next(w *Worker[J], from state, unsent *h2.Conn) (J, state) {
	var none J
	for {
		p.mu.Lock()
		if from == woken {
			p.coming--
		}
		j := p.take()
		flush := p.due(unsent, j)
		after := busy
		var other *Worker[J]
		switch {
		case j != none:
			if p.first != none || p.unsent != nil {
				// The handler may block: another worker takes what is left, and if that
				// is nothing, sends what is unsent.
				other = p.enlist()
			}
		case flush == [2]*h2.Conn{}:
			if after = end; p.park(w) {
				after = park
			}
		}
		p.mu.Unlock()
		p.start(other)
		for _, c := range flush {
			if c != nil {
				c.Flush()
			}
		}
		if j != none || after != busy {
			return j, after
		}
		from, unsent = busy, nil
	}
}

// take takes the first job out of the queue; the zero J: there is none. mu is held.
func (p *Pool[J]) take() J {
	var none J
	j := p.first
	if j == none {
		return none
	}
	l := j.link()
	p.first, l.behind = l.behind, none
	p.queued--
	if p.first == none {
		p.last = none
		p.atFront(nil)
	} else {
		p.atFront(p.first.Conn())
	}
	return j
}

// atFront notes the connection of the first job: most often the same as before, so that it is not stored
// again, which would take an atomic exchange. mu is held.
func (p *Pool[J]) atFront(c *h2.Conn) {
	if p.front.Load() != c {
		p.front.Store(c)
	}
}

// due returns the connections on which a worker must send what is queued before it
// handles j, or parks if that is zero; unsent is as in next. mu is held.
func (p *Pool[J]) due(unsent *h2.Conn, j J) (flush [2]*h2.Conn) {
	if unsent == nil && p.unsent == nil {
		return flush
	}
	switch {
	case unsent == nil || unsent == p.unsent:
	case p.unsent == nil:
		p.unsent, p.unsentAt = unsent, time.Now()
	default:
		flush[0] = unsent
	}
	if j == *new(J) || j.Conn() != p.unsent || time.Since(p.unsentAt) > maxUnsent {
		flush[1], p.unsent = p.unsent, nil
	}
	return flush
}

// exited ends the job whose handler has ended the goroutine with runtime.Goexit (as
// testing's FailNow does); on any other end of loop there is no job.
func (p *Pool[J]) exited(w *Worker[J]) {
	if w.job != *new(J) {
		w.job.Exited()
	}
}

// warmFrame is the stack in bytes that a waiting worker occupies: the garbage
// collector halves a stack of which less than a quarter is in use, and the next
// handler would have to grow it again.
const warmFrame = 4352

// wait waits to be woken; false at the end.
func (w *Worker[J]) wait() bool {
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
func (p *Pool[J]) park(w *Worker[J]) bool {
	if p.closed || len(p.idle) >= p.max {
		return false
	}
	w.since = time.Now()
	p.idle = append(p.idle, w)
	if !p.swept {
		p.swept = true
		if p.timer == nil {
			p.timer = time.AfterFunc(maxIdle, p.sweep)
		} else {
			p.timer.Reset(maxIdle)
		}
	}
	return true
}

// sweep ends the workers that have been idle for maxIdle, and is run again while others
// are idle.
func (p *Pool[J]) sweep() { p.endIdle(time.Now().Add(-maxIdle)) }

// EndIdle ends the workers that are idle now.
func (p *Pool[J]) EndIdle() { p.endIdle(time.Now()) }

// endIdle ends the workers that have been idle since then or before.
func (p *Pool[J]) endIdle(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := p.idle[:0]
	for _, w := range p.idle {
		if w.since.After(then) {
			keep = append(keep, w)
			continue
		}
		close(w.wake)
	}
	clear(p.idle[len(keep):])
	p.idle = keep
	if p.timer == nil {
		return
	}
	if p.swept = len(keep) > 0; p.swept {
		p.timer.Reset(maxIdle)
	} else {
		p.timer.Stop()
	}
}

// Close ends the idle workers, and the busy ones when they are done. Jobs are still
// handled afterwards, each by a worker that ends when it finds no other.
func (p *Pool[J]) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.EndIdle()
}

// Open has workers wait for further jobs again after Close.
func (p *Pool[J]) Open() {
	p.mu.Lock()
	p.closed = false
	p.mu.Unlock()
}
