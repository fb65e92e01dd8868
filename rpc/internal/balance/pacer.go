package balance

import (
	"context"
	"sync"
	"time"
)

// pacer spreads the attempts to connect of a client with many SubConns. Without it those that a resolver's new state begins make
// hundreds of goroutines, and as many on the servers, runnable at once, and each running call waits behind all of them for a processor
// (TestFleetChangesUnderLoad prints how long). An attempt that waits for its turn has no goroutine either: the next state may cancel hundreds of
// them. Attempts that wait for the network do not hold others up: one that has taken countedFor is not counted any more.
type pacer struct {
	mu      sync.Mutex
	counted int     // attempts that have begun and are counted
	queue   []paced // attempts that have yet to begin
}

// paced is an attempt.
type paced struct {
	ctx     context.Context
	run     func(leave func()) // makes it, and calls leave when it is over
	dropped func()             // is called in place of run if ctx has ended before the attempt's turn
}

const (
	pacedFrom     = 16 // SubConns; clients that have never had more since they were IDLE are not paced
	pacedTogether = 4  // attempts that are counted at most
	countedFor    = 2 * time.Millisecond
)

// begin runs a on a goroutine of its own, when its turn has come. A nil pacer runs it at once.
func (p *pacer) begin(a paced) {
	if p == nil {
		go a.run(func() {})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, a)
	p.next()
}

// next begins as many attempts as may be counted. p.mu is held.
func (p *pacer) next() {
	for p.counted < pacedTogether && len(p.queue) > 0 {
		a := p.queue[0]
		p.queue[0] = paced{}
		p.queue = p.queue[1:]
		if a.ctx.Err() != nil {
			a.dropped()
			continue
		}
		p.counted++
		go func() {
			t := time.AfterFunc(countedFor, p.leave)
			a.run(func() {
				if t.Stop() {
					p.leave()
				}
			})
		}()
	}
}

func (p *pacer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted--
	p.next()
}
