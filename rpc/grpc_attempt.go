package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// grpcAttempt is one try of a call over gRPC: its stream of HTTP/2 and the response so far.
type grpcAttempt struct {
	inbox

	conn    *clientConn
	replies *message.Learned // of the method; nil: they are lent
	st      *h2.Stream       // nil until opened; used and released by the caller's side

	// Under inbox.mu:
	header         *responseShape
	headerExtra    []h2.Field // the fields of header
	headerLen      int        // in bytes, as sent
	trailer        *responseShape
	trailerExtra   []h2.Field
	trailerLen     int
	status         *status.Status // set when the inbox ends; nil: OK, or to be read from the trailer
	foreign        *foreignAnswer // instead of header; nil: none
	headerReported bool           // the stats handlers have been called for the header
	sent           bool           // the request's HEADERS were queued, although opening the stream failed
	seen           progress       // how far the server got, when status is not the server's

	reuse reuse // of an attempt of a unary call that has ended; the caller's side's

	// writing and stopped are set in opposite order by two goroutines: the one that writes and the one that
	// receives the server's end. So at least one of them sees the other's.
	writing atomic.Bool // a Write or Open may wait for the server's window
	stopped atomic.Bool // the inbox has ended
}

// errStatus ends the inbox of an attempt whose status is not OK: an incomplete message is ignored then.
var errStatus = errors.New("rpc: the attempt has a status")

// attempts keeps the attempts of unary calls for reuse. Only those whose stream ended on both sides are put
// back: no callback can refer to them any more.
type attempts struct{ pool sync.Pool }

func (p *attempts) get() *grpcAttempt {
	if a, ok := p.pool.Get().(*grpcAttempt); ok {
		return a
	}
	return new(grpcAttempt)
}

func (p *attempts) put(a *grpcAttempt) {
	// The reading goroutine may still be about to unlock it.
	a.mu.Lock()
	a.in.Free()
	a.source, a.ungranted, a.taken = nil, 0, 0
	a.end, a.closed, a.placed = nil, false, false
	a.header, a.headerExtra, a.trailer, a.trailerExtra, a.headerReported = nil, nil, nil, nil, false
	a.status, a.seen, a.sent = nil, maybeProcessed, false
	a.writing, a.stopped = atomic.Bool{}, atomic.Bool{} // not stored atomically: no other goroutine uses them any more
	a.mu.Unlock()
	a.conn, a.replies, a.st, a.reuse = nil, nil, nil, discard
	p.pool.Put(a)
}

// recycle implements tried.
func (a *grpcAttempt) recycle(cc *ClientConn) {
	if a.reuse == reusable {
		cc.attempts.put(a)
	}
}

// wakeUps keeps the channels on which streaming calls wait. They stay with their client: a channel that was made in a bubble of
// testing/synctest may not be used outside.
type wakeUps struct{ pool sync.Pool }

func (p *wakeUps) get() chan struct{} {
	c, _ := p.pool.Get().(chan struct{})
	return c
}

func (p *wakeUps) put(c chan struct{}) {
	if c != nil {
		p.pool.Put(c)
	}
}

// gotHeaders processes the response's header or trailer, received on s.
func (a *grpcAttempt) gotHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	sh := responseShapeOf(h)
	extra := append([]h2.Field(nil), h.Extra...)
	var bad *status.Status
	if h.Status == 0 || sh.grpc { // otherwise the HTTP status says what has happened
		if bad = sh.bad; bad == nil {
			bad = malformed(extra)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.end != nil {
		return
	}
	switch {
	case a.foreign != nil: // its trailers
		a.finishForeign(s)
	case bad != nil:
		a.answer(s, bad)
	case h.Status == 0: // trailers
		a.trailer, a.trailerExtra, a.trailerLen = sh, extra, h.Length
		st := sh.status(extra, endTrailers)
		if a.header != nil && a.header.httpStatus != 200 && !sh.hasStatus(extra) {
			st = a.header.notGRPC()
		}
		a.answer(s, st)
	case e == h2.End: // a response that consists of it alone
		a.trailer, a.trailerExtra, a.trailerLen = sh, extra, h.Length
		a.answer(s, sh.status(extra, onlyTrailers))
	case !sh.grpc:
		a.beginForeign(s, sh.notGRPC())
	default:
		s.IgnoreLength() // as grpc-go, whose servers send what a program has in its metadata
		a.header, a.headerExtra, a.headerLen = sh, extra, h.Length
		a.gate.announce(headerEvent)
	}
}

// answer ends the attempt with the status of the response, which is complete; nil is OK. mu is held.
func (a *grpcAttempt) answer(s *h2.Stream, st *status.Status) {
	a.finishWith(st)
	a.stopWriting(s)
}

// stopWriting ends a Write or Open of an attempt that has ended: a server that has answered without reading the whole request
// does not open the window again. mu is held.
func (a *grpcAttempt) stopWriting(s *h2.Stream) {
	a.stopped.Store(true)
	if a.writing.Load() {
		s.Reset(h2.NoError)
	}
}

// finishWith ends the attempt with a status, nil being OK. mu is held.
func (a *grpcAttempt) finishWith(st *status.Status) {
	if a.end != nil {
		return
	}
	a.status = st
	a.stopped.Store(true)
	if st == nil {
		a.finish(io.EOF)
		return
	}
	a.finish(errStatus)
}

// gotData takes ownership of b, the next bytes of the response.
func (a *grpcAttempt) gotData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.foreign != nil && !a.closed && a.end == nil {
		a.collectForeign(s, b, e)
		return
	}
	if a.header == nil && !a.closed && a.end == nil {
		a.finishWith(status.New(codes.Internal, "rpc: the server sent data before a header"))
	}
	a.put(b, a.conn.cc.opts.pool)
	a.took(s, e)
}

// took is called when DATA has been processed. A response must not end with it. A unary call's message must
// fit the window as a whole. mu is held.
func (a *grpcAttempt) took(s *h2.Stream, e h2.Ending) {
	switch {
	case a.closed:
	case a.end != nil: // more than the call permits has come
		a.stopWriting(s)
	case e == h2.End:
		a.answer(s, status.New(codes.Internal, "server closed the stream without sending trailers"))
	case a.mode == onlyOne:
		if missing, _, ok := a.in.Missing(); ok && missing > 0 {
			a.grant()
		}
	}
}

// placeData returns the memory for the next DATA.
func (a *grpcAttempt) placeData() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.header == nil {
		return nil
	}
	return a.place(a.conn.cc.opts.pool, &a.conn.placing.grants, a.replies.Plan())
}

// placedData reports that n bytes have been written there.
func (a *grpcAttempt) placedData(s *h2.Stream, n int, e h2.Ending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fill(n)
	a.took(s, e)
}

// gotReset ends the attempt early.
func (a *grpcAttempt) gotReset(s *h2.Stream, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.end != nil {
		return
	}
	if a.foreign != nil {
		a.finishForeign(s)
		return
	}
	st, seen := resetStatus(err)
	if a.header == nil {
		a.seen = seen
	}
	a.finishWith(st)
}

// begun is called before the stream is opened: from now on there may be callbacks.
func (a *grpcAttempt) begun() { a.writing.Store(true) }

// opened stores the stream, and gives back the window of the data received before that.
func (a *grpcAttempt) opened(st *h2.Stream) {
	a.writing.Store(false)
	a.mu.Lock()
	a.st, a.source = st, st
	switch {
	case a.mode == oneByOne:
		if a.conn.streams.Add(1) > thriftyStreams {
			a.grantAt = 1
		}
	case a.end == nil:
		a.grant()
	}
	a.mu.Unlock()
}

// thriftyStreams is how many streaming calls of a client's connection keep up to grantFrom bytes of messages that have been taken
// before they give the window back: further ones give it back at once. Thus such bytes are at most half of unreadMost, and cannot
// withhold the connection's window.
const thriftyStreams = unreadMost / 2 / grantFrom

// write sends out. It takes ownership of the memory in out, on every path (rule 2).
func (a *grpcAttempt) write(ctx context.Context, out h2.Out) error {
	a.writing.Store(true)
	defer a.writing.Store(false)
	if a.stopped.Load() {
		freeOut(&out)
		return h2.ErrStreamDone
	}
	carries := out.Data.Len() > 0 || out.Rest != nil
	err := a.st.Write(ctx, &out)
	if err == nil && carries {
		a.conn.entity.MessageSent()
	}
	return err
}

// freeOut takes ownership of what out holds, and frees it.
func freeOut(out *h2.Out) {
	out.Data.Free()
	out.Data = tarn.Buffer{}
	if out.Rest != nil {
		out.Rest.Free()
	}
}

// interrupt implements attempt: it resets the stream. The server's answer is not received any more, so the attempt must have ended.
func (a *grpcAttempt) interrupt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.source != nil {
		a.source.Reset(h2.Cancel)
	}
}

// release closes the attempt and releases its stream, which resets it if it is still open. The caller's side
// calls it once.
func (a *grpcAttempt) release() {
	a.mu.Lock()
	a.closeLocked()
	spare := a.gate.spare()
	a.mu.Unlock()
	if a.st == nil {
		return
	}
	a.conn.cc.wakeUps.put(spare)
	if a.mode == oneByOne {
		a.conn.streams.Add(-1)
	}
	a.st.Release()
}

// waitHeader waits until the header or the end has come, or done is closed, and reports whether the
// header has come.
func (a *grpcAttempt) waitHeader(done <-chan struct{}) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.header == nil && a.end == nil && !a.closed && a.gate.wait(&a.mu, headerEvent|endEvent, done) {
	}
	return a.header != nil
}

// answered reports whether the response's header has come.
func (a *grpcAttempt) answered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.header != nil
}

// ended implements attempt.
func (a *grpcAttempt) ended() (*status.Status, progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status, a.seen
}

// endedWell reports, when waitEnd has returned true, whether the stream ended on both sides without a reset. What it
// looks at does not change any more, so it needs no lock.
func (a *grpcAttempt) endedWell() bool {
	return a.trailer != nil && a.status == nil
}

// headerMD is the response header as the application sees it.
func (a *grpcAttempt) headerMD() metadata.MD {
	a.mu.Lock()
	sh, extra := a.header, a.headerExtra
	a.mu.Unlock()
	return sh.metadataOf(extra)
}

// trailerMD is the trailer as the application sees it.
func (a *grpcAttempt) trailerMD() metadata.MD {
	a.mu.Lock()
	sh, extra := a.trailer, a.trailerExtra
	a.mu.Unlock()
	return sh.metadataOf(extra)
}

// received implements outcome. Most trailers have a status alone: no map is made for them.
func (a *grpcAttempt) received() (trailer metadata.MD, any bool) {
	a.mu.Lock()
	header, sh, extra := a.header, a.trailer, a.trailerExtra
	a.mu.Unlock()
	if sh != nil && sh.hasMetadata(extra) {
		trailer = sh.metadataOf(extra)
	}
	return trailer, sh != nil || header != nil
}

// server is the peer of the attempt's connection; nil: there was none.
func (a *grpcAttempt) server() *peer.Peer {
	if a.conn == nil {
		return nil
	}
	return &a.conn.peer
}

// reached implements outcome. A connection alone does not suffice: credentials and the length of the header list are checked
// before the stream is opened. Of a stream whose opening failed the beginning may have been sent.
func (a *grpcAttempt) reached() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.st != nil || a.sent
}

// decompressor implements attempt.
func (a *grpcAttempt) decompressor(k message.Kind, ci *callInfo) (encoding.Compressor, error) {
	if k != message.Compressed || a.header.encoding == "" {
		return nil, nil
	}
	return ci.decompressor(a.header.encoding)
}

// connect implements attempt: it picks a connection.
func (a *grpcAttempt) connect(c *call) error {
	a.limit = c.info.maxRecv
	if a.gate.own.woken == nil {
		a.gate.own.woken = c.cc.wakeUps.get()
	}
	_, err := c.connection()
	return err
}

// open implements attempt.
func (a *grpcAttempt) open(c *call, out h2.Out) (progress, error) {
	seen, err := c.open(a, c.picked.conn, &out)
	if err != nil {
		a.close()
	}
	return seen, err
}

// refusal implements attempt.
func (a *grpcAttempt) refusal(r received, limit int) error { return r.status(limit, responseCount) }

// decoded implements attempt.
func (a *grpcAttempt) decoded(v any) {
	a.replies.From(v)
	a.conn.entity.MessageReceived()
}

// abort implements attempt.
func (a *grpcAttempt) abort(st *status.Status) {
	a.mu.Lock()
	a.finishWith(st)
	a.mu.Unlock()
}

// statsSent implements attempt. The context is that of the attempt that has sent the message, also if another has replaced it since.
func (a *grpcAttempt) statsSent(c *call) func(any, payloadInfo) {
	ctx := c.statsContext()
	return func(v any, info payloadInfo) { c.statsOutPayload(ctx, v, info) }
}

// statsInHeader implements attempt.
func (a *grpcAttempt) statsInHeader(c *call) { c.statsInHeader(a) }

// statsEnd implements attempt.
func (a *grpcAttempt) statsEnd(c *call, err error) { c.statsEnd(a, err) }

// openUnary implements unaryAttempt.
func (a *grpcAttempt) openUnary(c *call, req any) (progress, error) {
	a.mode, a.limit = onlyOne, c.info.maxRecv
	seen, _, err := c.openUnary(a, req)
	return seen, err
}

// waitAnswer implements unaryAttempt.
func (a *grpcAttempt) waitAnswer(done <-chan struct{}) bool { return a.waitHeader(done) }

// unanswered implements unaryAttempt. Without a header there is no message.
func (a *grpcAttempt) unanswered(c *call) (progress, error) {
	st, seen := a.ended()
	if st == nil {
		return seen, status.Error(codes.Internal, responseCount.none)
	}
	return seen, c.failure(st)
}

// finishUnary implements unaryAttempt.
func (a *grpcAttempt) finishUnary(c *call, reply any) error {
	_, err := c.finishUnary(a, reply)
	return err
}

// closeUnary implements unaryAttempt.
func (a *grpcAttempt) closeUnary(c *call, err error) { c.closeUnary(a, discard, err) }

// resetStatus maps the end of a stream to a status (PROTOCOL-HTTP2.md, "Errors") and says how much of the
// call the server has received.
func resetStatus(err error) (*status.Status, progress) {
	var se *h2.StreamError
	var away *h2.GoAwayError
	switch {
	case errors.As(err, &se):
		return streamErrorStatus(se)
	case errors.As(err, &away):
		return status.New(codes.Unavailable, "the server is going away: "+err.Error()), notProcessed
	case errors.Is(err, h2.ErrClosed):
		return status.Convert(ErrClientConnClosing), maybeProcessed
	}
	return status.New(codes.Unavailable, lostText(err)), maybeProcessed
}

// lostText says that a connection has been lost, in grpc-go's words, which programs search for.
func lostText(err error) string {
	var away *h2.ConnError
	told := errors.As(err, &away) && away.Fault == h2.Told // the peer has sent GOAWAY before
	if told && away.Err != nil {
		err = away.Err
	}
	if err == io.ErrUnexpectedEOF {
		err = io.EOF // h2 says so wherever calls were open
	}
	text := "error reading from server: " + err.Error()
	if !told {
		return text
	}
	text = fmt.Sprintf("closing transport due to: connection error: desc = %q, received prior goaway: code: %v", text, away.Code)
	if away.Reason != "" {
		text += fmt.Sprintf(", debug data: %q", away.Reason)
	}
	return text
}
