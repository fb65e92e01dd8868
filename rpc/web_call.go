package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/preset"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// errNoReturn is the end of a call whose handler has neither returned nor panicked as others do.
var errNoReturn = status.Error(codes.Internal, "the handler ended its goroutine")

// webCall is one call that ServeHTTP serves, in any protocol. As the handler's context it stays valid after the call, so it is not
// used again; what few calls need is elsewhere, because its bytes are a sixth of those that a short call allocates.
type webCall struct {
	srv  *Server
	w    http.ResponseWriter
	r    *http.Request
	list *fields.List // of r's fields; nil: they are in its Header

	// open sets these.
	proto    webProtocol
	method   *method // nil: the handler of unknown services
	path     string
	codec    message.Codec
	incoming encoding.Compressor // of the request's messages; nil: none
	outgoing encoding.Compressor // of the response's messages; nil: none
	timeout  time.Duration
	bounded  bool  // there is a timeout
	early    bool  // the trailer is sent in the header, its names after earlyTrailer; otherwise at the end
	gotOne   bool  // RecvMsg has returned a message. recvMu guards it
	part     uint8 // of srv.calls
	place    int32 // in that part, whose lock guards it
	body     webBody

	ctx   context.Context // the handler's context: life, or one derived from it
	life  webLife
	stats *webStats // nil: there are no statistics handlers

	request boundRequest // of a unary call

	recvMu sync.Mutex

	responseMetadata
	headerErr error          // why the header did not fit; nil otherwise. sendMu guards it
	aborted   *status.Status // the call's, because SendMsg or RecvMsg failed; nil otherwise. sendMu guards it
}

func (c *webCall) clientStreams() bool {
	return c.method == nil || c.method.stream != nil && c.method.stream.ClientStreams
}

func (c *webCall) serverStreams() bool {
	return c.method == nil || c.method.stream != nil && c.method.stream.ServerStreams
}

// requests holds the protocol's errors for requests. In Connect, as in connect-go, a malformed one is the client's fault.
func (c *webCall) requests() count {
	switch c.proto.(type) {
	case *webConnectUnary, *webConnectStream:
		n := requestCount.in(connectCardinality)
		n.malformed = codes.InvalidArgument
		return n
	}
	return requestCount
}

// serve runs the handler to its end and sends the status.
func (c *webCall) serve() {
	if err := c.checkMetadata(); err != nil {
		c.refuse(&webRefusal{httpStatus: http.StatusBadRequest, st: status.New(codes.Internal, err.Error())})
		return
	}
	ctx := (*webContext)(c)
	ctx.begin()
	defer ctx.finish()
	c.ctx = ctx
	if st := c.tap(); st != nil {
		c.closeIfEnded()
		c.refuse(&webRefusal{httpStatus: connectHTTPStatus(st.Code()), st: st})
		return
	}
	c.srv.entity.Begin()
	c.stats = beginWebStats(c)
	seen := c.srv.opts.observe.begin(c.path, working)
	if c.method != nil && c.method.lends {
		c.body.lease = new(message.Lease)
	}
	// The body's memory is freed when no goroutine can be in RecvMsg any more.
	defer c.body.close(&c.recvMu)
	// err stays when the handler does not return, because of runtime.Goexit or http.ErrAbortHandler: net/http aborts the response
	// then, and the call must end for its stream, the statistics and the debug page all the same.
	err := errNoReturn
	defer func() {
		c.sendMu.Lock()
		c.released = true
		c.sendMu.Unlock()
		c.srv.entity.End(entity.OutcomeOf(err))
		c.stats.end(err)
		seen.end(err)
	}()
	var st *status.Status
	if c.method != nil && c.method.unary != nil {
		st = c.unary()
	} else {
		st = statusOf(c.stream())
	}
	if st.Code() == codes.OK {
		st = nil
	}
	// A handler that was ended by the deadline or the client may return any error; the context has the cause.
	if ctx.Err() != nil && st != nil && st.Code() == codes.Canceled {
		st = ctx.status()
	}
	err = c.end(st).Err()
}

// tap calls InTapHandle's function for the call.
func (c *webCall) tap() *status.Status {
	if c.srv.opts.tap == nil {
		return nil
	}
	ctx, err := c.srv.opts.tap(c.ctx, &tap.Info{FullMethodName: c.path, Header: (*webContext)(c).metadata()})
	if err == nil {
		c.ctx = ctx
		return nil
	}
	return refusedBy(err)
}

// unary runs a unary handler and sends its reply.
func (c *webCall) unary() *status.Status {
	first := c.body.only()
	if first.err != nil {
		first.err = c.because(first.err)
		return statusOf(first.status(c.srv.opts.maxRecv, c.requests()))
	}
	c.request.first = first
	reply, err := c.callUnary((*webRequest)(c))
	if err != nil {
		st := statusOf(err)
		if c.early && st.Code() == codes.OK {
			// In gRPC, OK without a message is the client's error. Here it would be an empty message.
			st = status.New(codes.Internal, responseCount.none)
		}
		return st
	}
	return statusOf(c.trySend(c.replyCodec(), reply))
}

// trySend is send; a codec or a compressor that panics ends the call alone.
func (c *webCall) trySend(codec message.Codec, v any) (err error) {
	defer c.recover(&err)
	return c.send(codec, v)
}

// replyCodec is the codec for the result of a unary handler, which does not change any more: its long bytes fields are sent from their own
// memory. They may be views of a lent request, which is freed before the last byte has been sent, and are copied then.
func (c *webCall) replyCodec() message.Codec {
	if _, ok := c.codec.(message.Proto); ok && c.outgoing == nil && c.body.lease == nil {
		return message.Spliced{}
	}
	return c.codec
}

// boundRequest is the request of a unary call until its handler has returned.
type boundRequest struct {
	mu    sync.Mutex
	first received
}

// take returns the request, to be freed by the caller, the first time.
func (b *boundRequest) take() received {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.first
	b.first = received{err: errDecoded}
	return r
}

// webRequest is a unary webCall as its request.
type webRequest webCall

func (w *webRequest) decode(v any) error {
	r := w.request.take()
	if w.body.lease != nil { // the body's close waits for this
		w.recvMu.Lock()
		defer w.recvMu.Unlock()
	}
	return (*webCall)(w).decode(&r, v)
}

func (w *webRequest) drop() {
	r := w.request.take()
	r.msg.Free()
}

func (c *webCall) callUnary(request *webRequest) (reply any, err error) {
	defer request.drop()
	defer c.recover(&err)
	return c.method.unary.Handler(c.method.impl, c.ctx, request.decode, c.srv.unary)
}

func (c *webCall) stream() (err error) {
	defer c.recover(&err)
	return c.srv.runStream(c.method, c.path, (*webStream)(c))
}

// recover ends a call whose handler panicked with INTERNAL. http.ErrAbortHandler is passed on: net/http then aborts the response.
func (c *webCall) recover(err *error) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		*err = c.srv.recovered(c.path, v)
	}
}

// webAddr is a client's address in net/http's form.
type webAddr string

func (webAddr) Network() string  { return "tcp" }
func (a webAddr) String() string { return string(a) }

// send sends one message of the response, which codec encodes.
func (c *webCall) send(codec message.Codec, v any) error {
	// Before the header is written: an error of the codec or the compressor becomes the status.
	m, info, err := encodeMessage(c.srv.opts.pool, codec, c.outgoing, c.srv.opts.maxSend, v)
	if err != nil {
		return err
	}
	if info.wire, err = c.sendMessage(m, info); err != nil {
		return err
	}
	c.stats.outPayload(v, info)
	return nil
}

// sendMessage sends m, of which it takes ownership, and returns how many bytes it took.
func (c *webCall) sendMessage(m message.Message, info payloadInfo) (int, error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	defer func() { m.Free() }() // also if a stats handler panics
	if c.released {
		return 0, errCallOver
	}
	if c.aborted != nil {
		return 0, c.aborted.Err()
	}
	if err := (*webContext)(c).Err(); err != nil { // net/http may take what is short all the same
		return 0, status.FromContextError(err).Err()
	}
	if err := c.putHeader(); err != nil {
		return 0, err
	}
	given := m
	m = message.Message{}
	n, err := c.proto.message(given, info)
	if err != nil {
		return 0, sendError(c.ctx, err)
	}
	return n, nil
}

// putHeader sets the response's header fields once. It fails if the client does not take as many, and then sets none of the
// handler's and fails whenever it is called again, so that a response without them is not taken for complete. sendMu is held.
func (c *webCall) putHeader() error {
	if c.sentHeader || c.headerErr != nil {
		return c.headerErr
	}
	c.proto.header()
	if c.r.ProtoMajor == 1 && (*webContext)(c).receiving() { // cut may still end the connection's reads
		c.w.Header().Set("Connection", "close")
	}
	if err := c.fits(); err != nil {
		c.header, c.trailer, c.headerErr = nil, nil, err
		return err
	}
	c.sentHeader = true
	c.addFields("", c.header)
	if c.early {
		c.addFields(earlyTrailer, c.trailer)
	}
	c.stats.outHeader(c.header)
	return nil
}

// generalFields is the size of :status, date and content-length, counted as for a limit on header lists.
const generalFields = len(":status") + len("200") + len("date") + len(http.TimeFormat) + len("content-length") + 19 + 3*32

// fits fails if a header with the handler's fields beside those that are set is longer than what the client takes (see [serverConn.fits]),
// which is known on connections of Serve.
func (c *webCall) fits() error {
	if len(c.header)+len(c.trailer) == 0 {
		return nil
	}
	conn, ok := c.r.Context().Value(connKey{}).(*serverConn)
	if !ok {
		return nil
	}
	fields := appendMetadata(nil, c.header)
	if c.early {
		n := len(fields)
		fields = appendMetadata(fields, c.trailer)
		for i := range fields[n:] {
			fields[n+i].Name = earlyTrailer + fields[n+i].Name
		}
	}
	size := generalFields
	if c.early && c.outgoing != nil { // a unary call of Connect
		size += len("content-encoding") + len(c.outgoing.Name()) + 32
	}
	for name, values := range c.w.Header() {
		for _, v := range values {
			size += len(name) + len(v) + 32
		}
	}
	return conn.fits("header", size, fields)
}

// set sets a field of the response's header. Values are not changed afterwards.
func (c *webCall) set(key string, values ...string) { preset.Set(c.w, key, values) }

// connKey is the key of a stream's *serverConn in the contexts of requests that Serve passes to ServeHTTP.
type connKey struct{}

// addFields adds metadata to the response's header, each name with a prefix.
func (c *webCall) addFields(prefix string, md metadata.MD) {
	if len(md) == 0 {
		return
	}
	h := c.w.Header()
	for k, vs := range md {
		k = strings.ToLower(k)
		if header.Reserved(k) {
			continue
		}
		for _, v := range vs {
			h.Add(prefix+k, header.EncodeValue(k, v))
		}
	}
}

// end sends the status; nil is OK. It returns the one that a header that does not fit has made of it.
func (c *webCall) end(st *status.Status) *status.Status {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.aborted != nil {
		st = c.aborted
	}
	begun := headerPending
	if c.sentHeader {
		begun = headerWritten
	}
	if begun == headerPending {
		c.closeIfEnded()
	}
	if begun == headerPending && (st == nil || c.headerErr != nil || len(c.header) > 0 || c.early && len(c.trailer) > 0) {
		if err := c.putHeader(); err != nil {
			st = statusOf(err)
		}
	}
	c.released = true
	c.replaceDetails(st)
	if err := c.proto.end(st, begun); err == nil && c.r.Context().Err() == nil { // otherwise the client has gone
		c.stats.outTrailer(c.trailer)
	}
	return st
}

// closeIfEnded has a connection of HTTP/1.1 end with a response whose header has not been written, if the call has ended: cut has set the
// connection's deadlines. If it ends from here on, cut leaves the reads alone.
func (c *webCall) closeIfEnded() {
	(*webContext)(c).receive()
	if c.ctx.Err() != nil && c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// abort makes err, which SendMsg or RecvMsg is about to return, the call's status, and returns it (see [serverCall.abort]). Unlike over gRPC,
// the status is sent when the handler returns.
func (c *webCall) abort(err error) error {
	if err == nil || err == io.EOF || c.ctx.Err() != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.aborted == nil && !c.released {
		c.aborted = statusOf(err)
	}
	return err
}

// refuse answers a request that is not a call.
func (c *webCall) refuse(no *webRefusal) {
	for k, vs := range no.header {
		c.w.Header()[k] = vs
	}
	if refuser, ok := c.proto.(interface{ refuse(*webRefusal) }); ok {
		refuser.refuse(no)
		return
	}
	// Without a protocol the answer is for a person; clients of every protocol take the HTTP status.
	http.Error(c.w, no.st.Message(), no.httpStatus)
}

// flush sends the written data to the client.
func (c *webCall) flush() {
	// The next write returns an error.
	_ = http.NewResponseController(c.w).Flush()
}

// decode fills v from r and frees r's message.
func (c *webCall) decode(r *received, v any) error {
	if r.err != nil {
		return r.status(c.srv.opts.maxRecv, c.requests())
	}
	size, err := decodeMessage(c.srv.opts.pool, c.codec, c.incoming, c.srv.opts.maxRecv, r, c.body.lease, v)
	switch {
	case err == nil:
	case status.Code(err) == codes.Internal && (r.kind == message.Plain || c.incoming != nil): // malformed, not compressed without a name
		return status.Error(c.requests().malformed, status.Convert(err).Message())
	default:
		return err
	}
	c.stats.inPayload(v, size, r.size)
	return nil
}

// webStream is a webCall as the grpc.ServerStream of a handler.
type webStream webCall

var _ grpc.ServerStream = (*webStream)(nil)

func (s *webStream) call() *webCall { return (*webCall)(s) }

// Context is the call's context.
func (s *webStream) Context() context.Context { return s.ctx }

// SetHeader adds to the response header.
func (s *webStream) SetHeader(md metadata.MD) error { return s.call().SetHeader(md) }

// SendHeader sends the response header.
func (s *webStream) SendHeader(md metadata.MD) error { return s.call().SendHeader(md) }

// SetTrailer adds to the trailer.
func (s *webStream) SetTrailer(md metadata.MD) { s.call().SetTrailer(md) }

// SendMsg sends one message and flushes it. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied.
func (s *webStream) SendMsg(v any) error {
	return s.call().abort(s.call().sendNow(s.codec, v))
}

// sendNow sends one message and flushes it.
func (c *webCall) sendNow(codec message.Codec, v any) error {
	if err := c.send(codec, v); err != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if !c.released {
		c.flush()
	}
	return nil
}

// RecvMsg waits for one message; io.EOF means that the client has sent its last message.
func (s *webStream) RecvMsg(v any) error { return s.call().abort(s.recv(v)) }

func (s *webStream) recv(v any) error {
	c := s.call()
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	if c.body.lease != nil {
		c.body.lease.Release() // the message before this one
	}
	r := c.nextMessage()
	single := !c.clientStreams()
	if errors.Is(r.err, io.EOF) && (!single || c.gotOne) {
		return io.EOF
	}
	if errors.Is(r.err, io.EOF) {
		r.err = errNoMessage
	}
	if err := c.decode(&r, v); err != nil || !single {
		return err
	}
	c.gotOne = true
	switch after := c.nextMessage(); {
	case errors.Is(after.err, io.EOF):
		return nil
	case after.err == nil:
		after.msg.Free()
		return (&received{err: errTwoMessages}).status(c.srv.opts.maxRecv, c.requests())
	default:
		return after.status(c.srv.opts.maxRecv, c.requests())
	}
}

// nextMessage returns the next message, to be freed by the caller. recvMu is held.
func (c *webCall) nextMessage() received {
	r := c.body.next()
	if r.err != nil {
		r.err = c.because(r.err)
	}
	return r
}

// because returns the reason for the call's end in place of err, the body's error, if the call has ended. A request that HTTP/1.1 has
// received in part is as one whose stream was reset.
func (c *webCall) because(err error) error {
	if cause := c.ctx.Err(); cause != nil && !errors.Is(err, io.EOF) {
		return cause
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return context.Canceled
	}
	return err
}

// SendHeader sends the header now, with md, but for unary calls of Connect. It fails when the header has been sent.
func (c *webCall) SendHeader(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.lastHeader(md); err != nil {
		return err
	}
	if c.early {
		// The header of a unary call of Connect has the status and the trailer, which are not known yet.
		c.sealed = true
		return nil
	}
	if err := c.putHeader(); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusOK)
	c.flush()
	return nil
}

// webTransport is a webCall in the form that grpc.SetHeader and its like use.
type webTransport webCall

// Method is the full method name.
func (t *webTransport) Method() string { return t.path }

// Registered reports whether a service has the method. Package rpc/opentelemetry asks for it.
func (t *webTransport) Registered() bool { return t.method != nil }

// SetHeader adds to the response header.
func (t *webTransport) SetHeader(md metadata.MD) error { return (*webCall)(t).SetHeader(md) }

// SendHeader sends the response header.
func (t *webTransport) SendHeader(md metadata.MD) error { return (*webCall)(t).SendHeader(md) }

// SetTrailer adds to the trailer.
func (t *webTransport) SetTrailer(md metadata.MD) error {
	(*webCall)(t).SetTrailer(md)
	return nil
}
