package h2

import (
	"sync/atomic"
	"time"
)

// handlerStart is how far the layer above has come with the goroutine that handles a stream that the peer opened.
type handlerStart = uint32

const (
	notStarted handlerStart = iota
	starting                // Starting was called
	started                 // Started was called
)

// Starting says, within OnHeaders, that the layer above starts a goroutine for s,
// which calls [Stream.Started] first. While Config.Limits.Starting streams are
// between the two, Run reads nothing further, so that a flood of requests cannot
// start goroutines faster than they run.
func (s *Stream) Starting() {
	if s.handler.CompareAndSwap(notStarted, starting) {
		s.c.starts.n.Add(1)
	}
}

// Started says that the layer above works on s now. From then on a reset of s by
// the peer does not count against Config.Limits.Resets: what the limit is for are
// streams that are reset before their handlers start. Released streams count as
// started. It may be called on any goroutine and does not block.
func (s *Stream) Started() {
	if s.handler.Load() != started && s.handler.Swap(started) == starting {
		s.c.starts.done()
	}
}

// SetDeadline says, within the first OnHeaders, when the peer will give the call
// up by itself. A reset of s by the peer from then on does not count against
// Config.Limits.Resets, even if s has not been started.
func (s *Stream) SetDeadline(t time.Time) { s.deadline = instantOf(t) }

// startGate counts the streams that are being started, and wakes Run when it waits for handlers.
type startGate struct {
	n    atomic.Int32
	wake atomic.Pointer[chan struct{}] // set while Run waits
}

// done counts one stream less.
func (g *startGate) done() {
	g.n.Add(-1)
	g.signal()
}

// signal wakes Run.
func (g *startGate) signal() {
	if g.wake.Load() == nil { // as a rule; a swap costs as much as all the rest
		return
	}
	if w := g.wake.Swap(nil); w != nil {
		close(*w)
	}
}

// wait waits until fewer than limit streams are being started.
func (g *startGate) wait(limit int32) {
	for g.n.Load() >= limit {
		w := g.arm()
		if g.n.Load() < limit {
			g.wake.Store(nil)
			return
		}
		<-w
	}
}

// arm returns what the next signal closes. Run looks at its condition again before it waits.
func (g *startGate) arm() <-chan struct{} {
	w := make(chan struct{})
	g.wake.Store(&w)
	return w
}
