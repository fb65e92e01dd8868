package rpc

import (
	"context"
	"time"
)

// pacer spreads the attempts to connect of a client with many subConns. Without it those that a resolver's new state begins make
// hundreds of goroutines, and as many on the servers, runnable at once, and each running call waits behind all of them for a processor
// (TestFleetChangesUnderLoad prints how long). Attempts that wait for the network do not hold others up: one that has taken
// countedFor is not counted any more.
type pacer chan struct{}

const (
	pacedFrom     = 16 // subConns; clients that have never had more since they were IDLE are not paced
	pacedTogether = 4  // attempts that are counted at most
	countedFor    = 2 * time.Millisecond
)

// enter waits until an attempt may begin; false when ctx has ended. Otherwise leave ends the attempt. A nil pacer does not
// wait.
func (p pacer) enter(ctx context.Context) (leave func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	select {
	case p <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	if ctx.Err() != nil { // select may choose either
		p.release()
		return nil, false
	}
	t := time.AfterFunc(countedFor, p.release)
	return func() {
		if t.Stop() {
			p.release()
		}
	}, true
}

func (p pacer) release() { <-p }
