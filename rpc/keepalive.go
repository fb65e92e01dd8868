package rpc

import (
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
)

// pinging holds the settings of a client's new connections, which change when a server complains about pings
// (gRFC A8, "Server Enforcement").
type pinging struct {
	now atomic.Pointer[pingingMaker] // nil: the client's first Maker and options
}

type pingingMaker struct {
	maker *h2.Maker
	every time.Duration
}

// newest returns the Maker of new connections and how often they ping a silent server; 0:
// never.
func (cc *ClientConn) newest() (*h2.Maker, time.Duration) {
	if p := cc.pinging.now.Load(); p != nil {
		return p.maker, p.every
	}
	every := cc.opts.keepalive.Time
	if every > 0 {
		every = max(every, minKeepalive)
	}
	return cc.maker, every
}

// tooManyPings makes new connections ping half as often as one that pinged every d. Several connections that
// are closed for it at the same time count as one.
func (cc *ClientConn) tooManyPings(d time.Duration) {
	if d <= 0 {
		return
	}
	next := &pingingMaker{maker: cc.maker.WithKeepalive(2 * d), every: 2 * d}
	for {
		old := cc.pinging.now.Load()
		if old != nil && old.every >= next.every {
			return
		}
		if cc.pinging.now.CompareAndSwap(old, next) {
			logger.Errorf("the server of %q said ENHANCE_YOUR_CALM, too_many_pings: new connections ping every %v", cc.Target(), next.every)
			return
		}
	}
}
