package faultnet

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// Ending is how a connection ends.
type Ending uint8

const (
	FIN Ending = iota // in order, with everything delivered: the reader sees io.EOF
	RST               // aborted: readers and writers see an error
)

// Flow is one direction of a Link.
type Flow struct {
	src, dst end

	mu      sync.Mutex
	cond    sync.Cond
	stalled bool
	stopped bool
	ended   bool
	chunk   int    // the most bytes passed on at once
	passed  int64  // bytes passed on so far
	cut     int64  // ends after that many
	how     Ending // and in this way
	stallAt int64  // stalls after that many
	reached chan struct{}
	rnd     *rand.Rand // of Jitter; nil without it
	trickle int        // how many bytes of each read are passed on one by one
}

func newFlow(src, dst end) *Flow {
	f := &Flow{src: src, dst: dst, chunk: math.MaxInt, cut: math.MaxInt64, stallAt: math.MaxInt64}
	f.cond.L = &f.mu
	return f
}

// Stall stops the flow: after what sockets and relay hold (below 2 MiB), writers
// wait.
func (f *Flow) Stall() { f.set(func() { f.stalled = true }) }

// StallAfter stops the flow when n bytes in all have passed, or now if they have. The channel that it returns is
// closed then.
func (f *Flow) StallAfter(n int64) <-chan struct{} {
	reached := make(chan struct{})
	f.set(func() { f.stallAt, f.reached = n, reached })
	return reached
}

// Resume ends a stall.
func (f *Flow) Resume() { f.set(func() { f.stalled = false }) }

// Chunk has at most n bytes delivered with each write, so that readers see reads of
// n bytes or little more.
func (f *Flow) Chunk(n int) { f.set(func() { f.chunk = n }) }

// Jitter makes the flow deliver pieces of random length and yield to other goroutines a random number of
// times between them, from a seed.
func (f *Flow) Jitter(seed uint64) { f.set(func() { f.rnd = rand.New(rand.NewPCG(seed, 0)) }) }

// Trickle has the first n bytes of what is read at once delivered one by one, and the rest together.
func (f *Flow) Trickle(n int) { f.set(func() { f.trickle = n }) }

// CutAfter ends both directions when n bytes in all have passed in this one.
func (f *Flow) CutAfter(n int64, how Ending) {
	f.set(func() { f.cut, f.how = n, how })
}

// Passed returns how many bytes have passed.
func (f *Flow) Passed() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

func (f *Flow) set(change func()) {
	f.mu.Lock()
	change()
	if f.passed >= f.stallAt {
		f.stalled, f.stallAt = true, math.MaxInt64
		close(f.reached)
	}
	due := f.passed >= f.cut && !f.ended
	f.cond.Broadcast()
	f.mu.Unlock()
	if due {
		f.end(f.how)
	}
}

func (f *Flow) stop() { f.set(func() { f.stopped = true }) }

// end ends both connections.
func (f *Flow) end(how Ending) {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	for _, e := range []end{f.src, f.dst} {
		if how == RST {
			e.Abort()
		} else {
			e.CloseWrite() // what still comes is read and dropped: it provokes no RST
		}
	}
}

// next waits until something may pass and returns how many of n bytes, the rest of a read of which passed have been
// passed on, and how often to yield to other goroutines before.
func (f *Flow) next(n, passed int) (m, yields int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.stalled && !f.stopped && !f.ended {
		f.cond.Wait()
	}
	m = min(n, f.chunk)
	if passed < f.trickle {
		m = 1
	}
	if f.rnd != nil {
		m, yields = 1+f.rnd.IntN(m), f.rnd.IntN(8)
	}
	return int(min(int64(m), f.cut-f.passed, f.stallAt-f.passed)), yields, !f.stopped && !f.ended
}

// run passes on until either side has ended.
func (f *Flow) run() {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.src.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			m, yields, ok := f.next(len(p), n-len(p))
			if !ok {
				break
			}
			for range yields {
				runtime.Gosched()
			}
			if _, err := f.dst.Write(p[:m]); err != nil {
				break
			}
			p = p[m:]
			f.set(func() { f.passed += int64(m) })
		}
		if err != nil {
			f.over()
			return
		}
	}
}

// over passes the end of src on to dst.
func (f *Flow) over() {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if !ended {
		f.dst.CloseWrite()
	}
}
