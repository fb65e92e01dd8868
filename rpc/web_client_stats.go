package rpc

import (
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// webOut is what an exchange has reported of its request to the client's statistics handlers. The header is reported when there is
// a connection for it, whose peer handlers expect; where a round tripper does not report connections, before the next
// event. As in gRPC it is not reported when no connection could be made. A nil webOut is of a client without handlers.
type webOut struct {
	mu      sync.Mutex // held while handlers are called, so that no other event comes before these
	state   webOutState
	message func() // reports the only message, after the header; nil: none is due
}

type webOutState uint8

const (
	outUnmade   webOutState = iota // there is no request yet
	outDue                         // the request has been made
	outReported                    // its header has been reported
	outOver                        // the end has been reported, or is about to be
)

// made is called when the request has been made.
func (o *webOut) made() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outUnmade {
		o.state = outDue
	}
}

// statsOut reports the header of the request, and the message that is due, unless that has been done.
func (x *webExchange) statsOut() {
	if x.out == nil {
		return
	}
	x.out.mu.Lock()
	defer x.out.mu.Unlock()
	x.statsOutLocked()
}

// statsOutLocked is statsOut; out.mu is held.
func (x *webExchange) statsOutLocked() {
	o := x.out
	if o.state != outDue {
		return
	}
	o.state = outReported
	p := x.server()
	if p == nil {
		p = &peer.Peer{}
	}
	x.call.statsOutHeader(p, x.call.cc.authority)
	if o.message != nil {
		o.message()
		o.message = nil
	}
}

// statsOnly reports the only message of the request, when its header is. Handlers may use v until then, as package grpc says
// of ClientStream.SendMsg.
func (x *webExchange) statsOnly(v any, info payloadInfo) {
	o := x.out
	o.mu.Lock()
	defer o.mu.Unlock()
	report := func() { x.call.statsOutPayload(x.call.statsContext(), v, info) }
	switch o.state {
	case outUnmade, outDue:
		o.message = report
	case outReported:
		report()
	}
}

// statsInHeader reports the response's header, if there is one, once.
func (x *webExchange) statsInHeader() {
	if x.headerReported || x.header == nil {
		return
	}
	x.headerReported = true
	x.statsOut()
	comp, n := "", 0
	if x.incoming != nil {
		comp = x.incoming.Name()
	}
	for _, f := range lowerFields(x.res.Header) {
		n += len(f.name) + len(f.value)
	}
	for _, h := range x.call.cc.opts.stats {
		h.HandleRPC(x.call.statsContext(), &stats.InHeader{Client: true, WireLength: n, Compression: comp, Header: x.header})
	}
}

// statsEnd reports the end.
func (x *webExchange) statsEnd(err error) {
	x.out.mu.Lock()
	if x.reached() {
		x.statsOutLocked()
	}
	x.out.state = outOver
	x.out.mu.Unlock()
	x.statsInHeader()
	ctx := x.call.statsContext()
	for _, h := range x.call.cc.opts.stats {
		if x.trailer != nil {
			h.HandleRPC(ctx, &stats.InTrailer{Client: true, Trailer: x.trailer})
		}
		h.HandleRPC(ctx, &stats.End{Client: true, BeginTime: x.call.begun, EndTime: time.Now(), Trailer: x.trailer, Error: err})
	}
}
