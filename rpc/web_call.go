package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/preset"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// webCall is one call that ServeHTTP serves, in any protocol: the carrier whose messages come and go in an exchange of HTTP. As the handler's
// context it stays valid after the call, so it is not used again; what few calls need is elsewhere, because its bytes are a sixth of those that a
// short call allocates.
type webCall struct {
	srv  *Server
	w    http.ResponseWriter
	r    *http.Request
	list *fields.List // of r's fields; nil: they are in its Header

	// open sets these.
	requested
	proto    webProtocol
	outgoing encoding.Compressor // of the response's messages; nil: none. sendMu guards it
	early    bool                // the trailer is sent in the header, its names after earlyTrailer; otherwise at the end

	over      bool  // the response is complete, but for what ServeHTTP's return adds. sendMu guards it
	abandoned bool  // it is ended without a status
	part      uint8 // of srv.calls
	place     int32 // in that part, whose lock guards it
	body      webBody
	life      webLife
	request   received // of a unary call
	runner
	headerErr error // why the header did not fit; nil otherwise. sendMu guards it
}

var _ serverCarrier = (*webCall)(nil)

// serve runs the handler to its end and sends the status. no is not nil for a call that is refused once the tap has been asked.
func (c *webCall) serve(no *webRefusal) {
	if err := c.checkMetadata(); err != nil {
		c.refuse(&webRefusal{httpStatus: http.StatusBadRequest, st: status.New(codes.Internal, err.Error())})
		return
	}
	c.user = c
	if st := c.tap(c); st != nil {
		defer c.endContext(context.Canceled)
		c.closeIfEnded()
		c.refuse(&webRefusal{httpStatus: c.httpStatus(st.Code()), st: st})
		return
	}
	if len(c.srv.opts.stats) > 0 {
		c.statsArrived(c.wireLength())
	}
	if no != nil {
		defer c.endContext(context.Canceled)
		c.refuse(no)
		if no.unregistered && len(c.srv.opts.stats) > 0 {
			c.statsUnregistered(c)
		}
		return
	}
	if c.method != nil {
		c.lease = c.method.lends.lease()
	}
	c.srv.entity.Begin()
	c.begin()
	returned := false
	defer func() {
		if !returned {
			c.leftByNetHTTP()
		}
	}()
	c.runner.serve(c, &c.request)
	returned = true
	if c.abandoned {
		panic(http.ErrAbortHandler)
	}
}

// leftByNetHTTP ends a call whose goroutine is ending: net/http closes the connection then, or resets the stream, after what has been flushed.
func (c *webCall) leftByNetHTTP() {
	if c.r.ProtoMajor == 1 {
		c.sendMu.Lock()
		c.w.Header().Set("Connection", "close")
		c.sendMu.Unlock()
	}
	c.exited(c)
	c.flush()
}

func (c *webCall) server() *Server        { return c.srv }
func (c *webCall) asked() *requested      { return &c.requested }
func (c *webCall) socket() *entity.Socket { return nil }

// counts: in Connect, as in connect-go, a malformed request is the client's fault.
func (c *webCall) counts() count {
	switch c.proto.(type) {
	case *webConnectUnary, *webConnectStream:
		n := requestCount.in(connectCardinality)
		n.malformed = codes.InvalidArgument
		return n
	}
	return requestCount
}

// httpStatus is that of a response without messages whose status has this code.
func (c *webCall) httpStatus(code codes.Code) int {
	if _, ok := c.proto.(*webConnectUnary); ok {
		return web.HTTPStatus(code)
	}
	return http.StatusOK // the status is elsewhere
}

func (c *webCall) prefix() int {
	if _, ok := c.proto.(*webConnectUnary); ok {
		return 0
	}
	return message.PrefixLen
}

// lent: the request's memory is freed before net/http has sent the last byte.
func (c *webCall) lent() lentUntil { return lentUntilEncoded }

// wireLength is the length of the request's fields in bytes.
func (c *webCall) wireLength() (n int) {
	for name, values := range c.eachField {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// SendMsg sends one message and flushes it. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied.
func (c *webCall) SendMsg(v any) error { return c.send(c, c.codec, v) }

// RecvMsg waits for one message; io.EOF means that the client has sent its last message.
func (c *webCall) RecvMsg(v any) error { return c.receive(c, v) }

// SendHeader sends the header now, with md, but for unary calls of Connect. It fails when the header has been sent.
func (c *webCall) SendHeader(md metadata.MD) error { return c.sendHeader(c, md) }

func (c *webCall) decodeUnary(v any) error { return c.decodeFirst(c, v) }

func (c *webCall) invoke() (reply any, err error) {
	m := c.method
	return m.unary.Handler(m.impl, c.user, c.decodeUnary, c.srv.unary)
}

func (c *webCall) compression() (encoding.Compressor, string) {
	if c.outgoing == nil {
		return nil, ""
	}
	return c.outgoing, c.outgoing.Name()
}

func (c *webCall) compressBy(comp encoding.Compressor, _ string) { c.outgoing = comp }

// offered returns the compressions that the protocol's field lists.
func (c *webCall) offered() []string {
	name := "Grpc-Accept-Encoding"
	switch c.proto.(type) {
	case *webConnectUnary:
		name = "Accept-Encoding"
	case *webConnectStream:
		name = "Connect-Accept-Encoding"
	}
	var out []string
	for _, v := range c.values(name) {
		for n := range web.Acceptable(v) {
			out = append(out, n)
		}
	}
	return out
}

// only waits for the message of a unary call.
func (c *webCall) only() received {
	r := c.body.only()
	if r.err != nil {
		r.err = c.because(r.err)
	}
	return r
}

// next waits for the next message. recvMu is held.
func (c *webCall) next() received {
	if err := c.Err(); err != nil {
		return received{err: err}
	}
	r := c.body.next()
	if r.err != nil {
		r.err = c.because(r.err)
	}
	return r
}

// because returns the reason for the call's end in place of err, the body's error, if the call has ended. A request that HTTP/1.1 has
// received in part is as one whose stream was reset.
func (c *webCall) because(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if cause := c.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return context.Canceled
	}
	return err
}

// webAddr is a client's address in net/http's form.
type webAddr string

func (webAddr) Network() string  { return "tcp" }
func (a webAddr) String() string { return string(a) }

// writeHeader sends the header, but for unary calls of Connect. sendMu is held.
func (c *webCall) writeHeader() error {
	if err := c.Err(); err != nil { // net/http may take it all the same
		return status.FromContextError(err).Err()
	}
	if c.early {
		// The header has the status and the trailer, which are not known yet.
		c.state = headerSealed
		return nil
	}
	if err := c.putHeader(); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusOK)
	c.flush()
	return nil
}

// writeMessage sends m, of which it takes ownership, and flushes it. sendMu is held.
func (c *webCall) writeMessage(m message.Message, info payloadInfo) (payloadInfo, error) {
	info, err := c.putMessage(m, info)
	if err == nil {
		c.flush()
	}
	return info, err
}

// putMessage writes m, of which it takes ownership. sendMu is held.
func (c *webCall) putMessage(m message.Message, info payloadInfo) (_ payloadInfo, err error) {
	defer func() { m.Free() }()     // also if a stats handler panics
	if err := c.Err(); err != nil { // net/http may take what is short all the same
		return info, status.FromContextError(err).Err()
	}
	if c.over {
		return info, errCallOver
	}
	if err := c.putHeader(); err != nil {
		return info, err
	}
	given := m
	m = message.Message{}
	if info.wire, err = c.proto.message(given, info); err != nil {
		return info, sendError(c, err)
	}
	return info, nil
}

// writeReply sends m, of which it takes ownership, and OK. sendMu is held.
func (c *webCall) writeReply(m message.Message, info payloadInfo) (*status.Status, payloadInfo, error) {
	info, err := c.putMessage(m, info)
	if err != nil {
		return statusOf(err), info, errNotReplied
	}
	// The status is OK also if the call has ended since: the client may have gone because it has all of the message.
	_ = c.end(nil, headerWritten) // the message has been sent in any case
	return nil, info, nil
}

// putHeader sets the response's header fields once. It fails if the client does not take as many, and then sets none of the
// handler's and fails whenever it is called again, so that a response without them is not taken for complete. sendMu is held.
func (c *webCall) putHeader() error {
	if c.state == headerWritten || c.headerErr != nil {
		return c.headerErr
	}
	c.proto.header()
	if c.r.ProtoMajor == 1 && c.receiving() { // cut may still end the connection's reads
		c.w.Header().Set("Connection", "close")
	}
	if err := c.fits(); err != nil {
		c.header, c.trailer, c.headerErr = nil, nil, err
		return err
	}
	c.state = headerWritten
	c.addFields("", c.header)
	if c.early {
		c.addFields(earlyTrailer, c.trailer)
	}
	if len(c.srv.opts.stats) > 0 && !c.left() {
		c.statsOutHeader(c)
	}
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
		if c.lease != nil {
			k = strings.Clone(k) // h is written when the call has released its request, of which k and v may be views
		}
		for _, v := range vs {
			v = header.EncodeValue(k, v)
			if c.lease != nil {
				v = strings.Clone(v)
			}
			h.Add(prefix+k, v)
		}
	}
}

// writeStatus sends the status, nil for OK, as far as the protocol has it in the body; net/http sends what is in trailers when ServeHTTP returns.
// It returns st if the client has gone, as over a connection of Serve. sendMu is held.
func (c *webCall) writeStatus(st *status.Status, at statusTime) (*status.Status, error) {
	if c.over { // a stats handler that was called after the status has failed
		return st, errCallOver
	}
	// A handler that was ended by the deadline, the client or Stop may return any error, or none; the context has the cause. Over gRPC its stream
	// has been reset.
	handlers := st
	if code := st.Code(); (code == codes.Canceled || code == codes.OK) && c.Err() != nil {
		st = c.endStatus()
	}
	begun := c.state
	if begun != headerWritten {
		if at == duringHandler {
			c.closeIfCut()
		} else {
			c.closeIfEnded()
		}
		if st.Code() == codes.OK || c.headerErr != nil || len(c.header) > 0 || c.early && len(c.trailer) > 0 {
			if err := c.putHeader(); err != nil {
				st = statusOf(err)
			}
		}
	}
	err := c.end(st, begun)
	if c.left() {
		return handlers, context.Canceled
	}
	if err != nil {
		return st, err
	}
	return st, c.r.Context().Err()
}

// end ends the response with st after a header of the state begun. sendMu is held.
func (c *webCall) end(st *status.Status, begun headerState) error {
	c.over = true
	err := c.proto.end(st, begun)
	c.state = headerWritten // with the status, if not before: the handler may go on after an error of SendMsg
	return err
}

// closeIfEnded has a connection of HTTP/1.1 end with a response whose header has not been written, if the call has ended: cut has set the
// connection's deadlines. If it ends from here on, cut leaves the reads alone.
func (c *webCall) closeIfEnded() {
	c.bodyReceived()
	if c.Err() != nil && c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// closeIfCut has a connection of HTTP/1.1 end with a response whose header has not been written, if cut has set the connection's deadlines, or may
// do so while the handler goes on.
func (c *webCall) closeIfCut() {
	if c.r.ProtoMajor == 1 && (c.Err() != nil || c.receiving()) {
		c.w.Header().Set("Connection", "close")
	}
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

// abandon has ServeHTTP end with http.ErrAbortHandler.
func (c *webCall) abandon() { c.abandoned = true }

// release ends the call when the handler has returned. The body's memory is freed when no goroutine can be in RecvMsg any more: if one that the
// handler left running is still reading, when its read ends, at the latest when net/http closes the body.
func (c *webCall) release() {
	c.sendMu.Lock()
	c.released = true
	c.sendMu.Unlock()
	if !c.life.timer.At().IsZero() {
		c.srv.deadlines[c.part].Remove(&c.life.timer)
	}
	c.endContext(context.Canceled)
	if c.recvMu.TryLock() {
		c.freeBody()
	} else {
		go c.freeBodyLater()
	}
}

func (c *webCall) freeBodyLater() {
	c.recvMu.Lock()
	c.freeBody()
}

// freeBody frees the request's memory, and unlocks recvMu.
func (c *webCall) freeBody() {
	defer c.recvMu.Unlock()
	c.body.free()
}

// releaseLent implements serverCarrier. It waits as release does.
func (c *webCall) releaseLent() {
	if c.recvMu.TryLock() {
		c.freeLent()
	} else {
		go c.freeLentLater()
	}
}

func (c *webCall) freeLentLater() {
	c.recvMu.Lock()
	c.freeLent()
}

// freeLent frees the memory of lent requests, and unlocks recvMu.
func (c *webCall) freeLent() {
	defer c.recvMu.Unlock()
	c.lease.Release()
}

// within sets the call's deadline.
func (c *webCall) within(d time.Duration) { c.life.timer.Set(time.Now().Add(d)) }
