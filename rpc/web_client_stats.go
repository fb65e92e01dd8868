package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// webOut is what an exchange has reported of its request to the client's statistics handlers. The header is reported when there is
// a connection for it, whose peer handlers expect; where a round tripper does not report connections, before the next
// event. As in gRPC it is not reported when no connection could be made. A nil webOut is of a client without handlers.
type webOut struct {
	mu      sync.Mutex // held while handlers are called, so that no other event comes before these
	state   webOutState
	ctx     context.Context // of the events from the header on; set when that is reported
	message func()          // reports the only message, after the header; nil: none is due
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
	o.ctx = x.call.statsContext()
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
	report := func() { x.call.statsOutPayload(o.ctx, v, info) }
	switch o.state {
	case outUnmade, outDue:
		o.message = report
	case outReported:
		report()
	}
}

// statsMessage reports a message that has been sent, with the context of the request's header. No lock is held while handlers run.
func (x *webExchange) statsMessage(v any, info payloadInfo) {
	x.out.mu.Lock()
	ctx := x.out.ctx
	x.out.mu.Unlock()
	if ctx != nil {
		x.call.statsOutPayload(ctx, v, info)
	}
}

// webHeader is the header of a response.
type webHeader struct {
	md       metadata.MD
	length   int    // in bytes
	encoding string // of messages; empty: they are not compressed
}

// receivedHeader is the header of x's response; nil: there is none.
func (x *webExchange) receivedHeader() *webHeader {
	if x.header == nil {
		return nil
	}
	h := &webHeader{md: x.header}
	if x.incoming != nil {
		h.encoding = x.incoming.Name()
	}
	for _, f := range lowerFields(x.res.Header) {
		h.length += len(f.Name) + len(f.Value)
	}
	return h
}

// statsIn reports the response's header, which may be nil.
func (x *webExchange) statsIn(h *webHeader) {
	if h == nil {
		return
	}
	x.statsOut()
	for _, s := range x.call.cc.opts.stats {
		s.HandleRPC(x.call.statsContext(), &stats.InHeader{Client: true, WireLength: h.length, Compression: h.encoding, Header: h.md})
	}
}

// statsInHeader reports the response's header, if there is one, once.
func (x *webExchange) statsInHeader() {
	if x.headerReported {
		return
	}
	x.headerReported = x.header != nil
	x.statsIn(x.receivedHeader())
}

// statsOutOver reports what is due of the request, if a server was reached. Nothing is reported of it afterwards.
func (x *webExchange) statsOutOver() {
	x.out.mu.Lock()
	defer x.out.mu.Unlock()
	if x.reached() {
		x.statsOutLocked()
	}
	x.out.state = outOver
}

// statsEnd reports the end.
func (x *webExchange) statsEnd(err error) {
	x.statsOutOver()
	x.statsInHeader()
	x.call.statsEnded(x.trailer, 0, err)
}
