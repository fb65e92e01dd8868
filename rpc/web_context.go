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

// webContext is a webCall as its handler's context: one object holds deadline, cancellation, metadata, peer
// and transport stream, each made on first use. Its parent is the request's context.
type webContext webCall

var _ context.Context = (*webContext)(nil)

// webLife is the state of a webContext.
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
func (c *webContext) begin() {
	if c.r.Body == http.NoBody || c.r.ProtoMajor == 1 && c.r.ContentLength == 0 { // no read will see its end
		c.receive()
	}
	if !c.bounded {
		return
	}
	c.life.timer.Set(time.Now().Add(c.timeout))
	if c.timeout <= 0 {
		c.expire()
		return
	}
	c.srv.deadlines[c.part].Add(&c.life.timer, c)
}

// DeadlinePassed implements timers.Firer. What expire calls may be another package's and may block.
func (c *webContext) DeadlinePassed() { go c.expire() }

// finish ends the context when the handler has returned.
func (c *webContext) finish() {
	if !c.life.timer.At().IsZero() {
		c.srv.deadlines[c.part].Remove(&c.life.timer)
	}
	c.end(context.Canceled)
}

// returned ends the use of the ResponseWriter by cut.
func (c *webContext) returned() {
	c.life.cutMu.Lock()
	c.life.over = true
	c.life.cutMu.Unlock()
}

// receive notes that the request's body has been received, or the handler has returned, unless the call has ended: cut may have
// ended the reads then.
func (c *webContext) receive() {
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	c.life.received = c.life.received || c.Err() == nil
}

// receiving reports whether cut has ended the reads of the request, or would.
func (c *webContext) receiving() bool {
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	return !c.life.received
}

// requestBody is the body of a webCall's request, whose end it notes.
type requestBody webCall

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.r.Body.Read(p)
	if err == io.EOF {
		(*webContext)(b).receive()
	}
	return n, err
}

// status is the call's when its context has ended because of its deadline, its client or Stop.
func (c *webContext) status() *status.Status {
	c.life.mu.Lock()
	stopped := c.life.stopped
	c.life.mu.Unlock()
	if stopped {
		return status.New(codes.Unavailable, "the server has been stopped")
	}
	return status.FromContextError(c.Err())
}

// halt ends the call because of Stop. What it calls may be another package's and may block.
func (c *webContext) halt() {
	c.life.mu.Lock()
	// The end of the reads may end the request's context, too.
	c.life.stopped = c.life.state.Err() == nil && c.r.Context().Err() == nil
	c.life.mu.Unlock()
	c.cut(context.Canceled)
}

// lastWrite is how long writing the status may take after the call's deadline has passed, or after Stop.
const lastWrite = time.Second

// expire ends the call because of its deadline.
func (c *webContext) expire() { c.cut(context.DeadlineExceeded) }

// cut ends the context with err, and the handler's reads and writes, which net/http does not end by itself.
func (c *webContext) cut(err error) {
	c.end(err)
	c.life.cutMu.Lock()
	defer c.life.cutMu.Unlock()
	if c.life.over {
		return
	}
	control := http.NewResponseController(c.w)
	// A writer without deadlines blocks until its client reads or disconnects. Over HTTP/1.1 net/http reads on behind the body: a deadline
	// would end the contexts of all later requests of the connection.
	if !c.life.received {
		_ = control.SetReadDeadline(time.Now())
	}
	_ = control.SetWriteDeadline(time.Now().Add(lastWrite))
}

// end ends the context with err unless it has ended already.
func (c *webContext) end(err error) {
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
func (c *webContext) Deadline() (time.Time, bool) {
	at, ok := c.r.Context().Deadline()
	if own := c.life.timer.At(); !own.IsZero() && (!ok || own.Before(at)) {
		return own, true
	}
	return at, ok
}

// Done is closed when the call has ended: cancelled, expired, disconnected, or returned from.
func (c *webContext) Done() <-chan struct{} {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	c.follow()
	return c.life.state.Done()
}

// follow registers with the request's context when the end is waited for. life.mu is held.
func (c *webContext) follow() {
	l, parent := &c.life, c.r.Context()
	if l.state.Err() == nil && l.stop == nil && parent.Done() != nil {
		l.stop = context.AfterFunc(parent, func() { c.end(parent.Err()) })
	}
}

// Err is nil until Done is closed, or would be if it were used.
func (c *webContext) Err() error {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	if err := c.life.state.Err(); err != nil {
		return err
	}
	return c.r.Context().Err()
}

// AfterFunc lets package context derive contexts without a goroutine for each; see context.AfterFunc.
func (c *webContext) AfterFunc(f func()) (stop func() bool) {
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
func (c *webContext) Value(key any) any {
	switch key {
	case grpcgo.MetadataKey:
		return c.metadata()
	case grpcgo.PeerKey:
		return c.peer()
	case grpcgo.StreamKey:
		return grpc.ServerTransportStream((*webTransport)(c))
	}
	return c.r.Context().Value(key)
}

// metadata is the metadata among the request's fields. It is shared and must not be changed, which package
// metadata ensures by copying.
func (c *webContext) metadata() metadata.MD {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	if c.life.md == nil {
		// Binary values were checked when the call began.
		c.life.md, _ = (*webCall)(c).requestMetadata()
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
func (c *webContext) peer() *peer.Peer {
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
