package rpc

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/lifetime"
	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A webCall is its own context: one object holds deadline, cancellation, metadata, peer and transport stream, each made on first use. Its
// parent is the request's context.

// webLife is the state of a webCall as a context.
type webLife struct {
	timer timers.Entry // of the deadline; its time is zero without one

	mu    sync.Mutex
	state lifetime.State
	stop  func() bool // ends the registration with the request's context; nil: none
	md    metadata.MD // nil until used
	from  *peer.Peer  // nil until used

	stopped bool // Stop has ended the call

	cutMu    sync.Mutex // held while the request's and the response's deadlines are set; guards what follows
	received bool       // the request's body has been received, or the handler has returned: cut does not end the reads
	over     bool       // the ResponseWriter must not be used any more
}

// begin starts the call's timer.
func (c *webCall) begin() {
	if c.r.Body == http.NoBody || c.r.ProtoMajor == 1 && c.r.ContentLength == 0 { // no read will see its end
		c.bodyReceived()
	}
	if !c.life.timer.At().IsZero() {
		c.srv.deadlines[c.part].Add(&c.life.timer, c)
	}
}

// DeadlinePassed implements timers.Firer. What expire calls may be another package's and may block.
func (c *webCall) DeadlinePassed() { go c.expire() }

// returned ends the use of the ResponseWriter by cut.
func (c *webCall) returned() {
	c.life.cutMu.Lock()
	c.life.over = true
	c.life.cutMu.Unlock()
}

// bodyReceived notes that the request's body has been received, or the handler has returned, unless the call has ended: cut may have
// ended the reads then.
func (c *webCall) bodyReceived() {
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	c.life.received = c.life.received || c.Err() == nil
}

// receiving reports whether cut has ended the reads of the request, or would.
func (c *webCall) receiving() bool {
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	return !c.life.received
}

// requestBody is the body of a webCall's request, whose end it notes.
type requestBody webCall

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.r.Body.Read(p)
	if err == io.EOF {
		(*webCall)(b).bodyReceived()
	}
	return n, err
}

// endStatus is the status of a call whose context has ended because of its deadline, its client or Stop.
func (c *webCall) endStatus() *status.Status {
	c.life.mu.Lock()
	stopped := c.life.stopped
	c.life.mu.Unlock()
	if stopped {
		return status.New(codes.Unavailable, "the server has been stopped")
	}
	return status.FromContextError(c.Err())
}

// left reports whether the client has ended the call, or its connection.
func (c *webCall) left() bool {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	err := c.life.state.Err()
	// After Stop or the deadline the end of the reads may have ended the request's context.
	return !c.life.stopped && (err == nil || err == context.Canceled) && c.r.Context().Err() == context.Canceled
}

// halt ends the call because of Stop. What it calls may be another package's and may block.
func (c *webCall) halt() {
	c.life.mu.Lock()
	// The end of the reads may end the request's context, too.
	c.life.stopped = c.life.state.Err() == nil && c.r.Context().Err() == nil
	c.life.mu.Unlock()
	c.cut(context.Canceled)
}

// lastWrite is how long writing the status may take after the call's deadline has passed, or after Stop.
const lastWrite = time.Second

// expire ends the call because of its deadline.
func (c *webCall) expire() { c.cut(context.DeadlineExceeded) }

// cut ends the context with err, and the handler's reads and writes, which net/http does not end by itself.
func (c *webCall) cut(err error) {
	c.endContext(err)
	c.endReads()
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	if !c.life.over {
		// A writer without deadlines blocks until its client reads or disconnects.
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(lastWrite))
	}
}

// endReads ends the handler's reads.
func (c *webCall) endReads() {
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	// Over HTTP/1.1 net/http reads on behind the body: a deadline would end the contexts of all later requests of the connection.
	if !c.life.over && !c.life.received {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now())
	}
}

// interrupt ends a write that waits for the client.
func (c *webCall) interrupt() { c.cut(context.Canceled) }

// cancel ends the context with err, and a read that waits for the client. There is none if recvMu is free, and none begins (see next).
func (c *webCall) cancel(err error) {
	c.endContext(err)
	if c.recvMu.TryLock() {
		c.recvMu.Unlock()
		return
	}
	c.endReads()
}

// endContext ends the context with err unless it has ended already.
func (c *webCall) endContext(err error) {
	l := &c.life
	l.mu.Lock()
	run, first := l.state.End(err)
	stop := l.stop
	l.mu.Unlock()
	if first && stop != nil {
		stop()
	}
	run.Run()
}

// Deadline is the call's or the request's, whichever is earlier.
func (c *webCall) Deadline() (time.Time, bool) {
	at, ok := c.r.Context().Deadline()
	if own := c.life.timer.At(); !own.IsZero() && (!ok || own.Before(at)) {
		return own, true
	}
	return at, ok
}

// Done is closed when the call has ended: cancelled, expired, disconnected, or returned from.
func (c *webCall) Done() <-chan struct{} {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	c.follow()
	return c.life.state.Done()
}

// follow registers with the request's context when the end is waited for. life.mu is held.
func (c *webCall) follow() {
	l, parent := &c.life, c.r.Context()
	if l.state.Err() == nil && l.stop == nil && parent.Done() != nil {
		l.stop = context.AfterFunc(parent, func() { c.endContext(parent.Err()) })
	}
}

// Err is nil until Done is closed, or would be if it were used.
func (c *webCall) Err() error {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	if err := c.life.state.Err(); err != nil {
		return err
	}
	return c.r.Context().Err()
}

// AfterFunc lets package context derive contexts without a goroutine for each; see context.AfterFunc.
func (c *webCall) AfterFunc(f func()) (stop func() bool) {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	c.follow()
	a := c.life.state.AfterFunc(f)
	return func() bool {
		c.life.mu.Lock()
		defer c.life.mu.Unlock()
		return c.life.state.Stop(a)
	}
}

// Value returns the values of packages metadata, peer and grpc, and those of the request's context.
func (c *webCall) Value(key any) any {
	switch key {
	case grpcgo.MetadataKey:
		return c.incoming()
	case grpcgo.PeerKey:
		return c.peer()
	case grpcgo.StreamKey:
		return grpc.ServerTransportStream(transportStream[*webCall]{c})
	}
	return c.r.Context().Value(key)
}

// incoming is the metadata among the request's fields. It is shared and must not be changed, which package
// metadata ensures by copying.
func (c *webCall) incoming() metadata.MD {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	if c.life.md == nil {
		// Binary values were checked when the call began.
		c.life.md, _ = c.requestMetadata()
	}
	return c.life.md
}

// checkMetadata fails if a binary value is not base64.
func (c *webCall) checkMetadata() (err error) {
	for name := range c.eachField {
		if n := len(name) - len(binSuffix); n >= 0 && strings.EqualFold(name[n:], binSuffix) {
			c.life.md, err = c.requestMetadata()
			return err
		}
	}
	return nil
}

const binSuffix = "-bin"

// requestMetadata is the metadata among the request's fields.
func (c *webCall) requestMetadata() (metadata.MD, error) {
	md := metadata.MD{}
	if c.r.Host != "" {
		md[":authority"] = []string{c.r.Host}
	}
	for name, values := range c.eachField {
		key := strings.ToLower(name)
		if !header.ReceivedByWeb(key) {
			continue
		}
		for _, v := range values {
			if err := addValues(md, key, v); err != nil {
				return nil, err
			}
		}
	}
	return md, nil
}

// peer is the client in the form of package peer.
func (c *webCall) peer() *peer.Peer {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	if c.life.from == nil {
		c.life.from = requestPeer(c.r)
	}
	return c.life.from
}

func requestPeer(r *http.Request) *peer.Peer {
	p := &peer.Peer{Addr: webAddr(r.RemoteAddr)}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		p.LocalAddr = local
	}
	if r.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{State: *r.TLS,
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	return p
}
