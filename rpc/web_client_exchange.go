package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/signal"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// webExchange is one attempt of a call of a client of another protocol than gRPC: a
// request and its response.
type webExchange struct {
	web  *webClient
	call *call
	in   dialect
	kind kind

	conns  *webConns       // that make the request; nil: another round tripper does
	seen   progress        // how far the server got, after a send without a response
	upload *requestMessage // the content of the request; nil: there is none, or it is not one message

	// Of a unary call:
	cancel  func()          // ends the request's context; nil: there is none yet
	content *requestMessage // the request, also where the URL has it; nil: it is not encoded yet
	first   received        // the first frame of the response, if read
	read    bool

	res            *http.Response // nil until there is one
	body           webBody
	incoming       encoding.Compressor // of the response's messages; nil: none
	header         metadata.MD
	headerReported bool // the statistics handlers have been called for the header

	ended   bool           // status and trailer are set
	status  *status.Status // nil: OK
	trailer metadata.MD

	out *webOut // nil without statistics handlers

	begun atomic.Bool // a request was begun, and a connection could be made for it

	mu        sync.Mutex // of at, which the transport's goroutines set
	at        peer.Peer
	hasConn   bool          // at is set
	connected signal.Signal // when it is
}

// awaitConn waits until the transport has said which connection the request has, if it certainly does: an *http.Transport may have handed the
// request over to another. h2http calls hooks on a goroutine of its own, so that the connection may be in use already. It has called them when
// it returns the response.
func (x *webExchange) awaitConn(ctx context.Context) {
	switch x.web.rt.(type) {
	case *webConns, *h2http.Transport:
	default:
		return
	}
	x.mu.Lock()
	if x.hasConn {
		x.mu.Unlock()
		return
	}
	connected := x.connected.Next()
	x.mu.Unlock()
	select {
	case <-connected:
	case <-ctx.Done():
	}
}

// exchange makes an attempt of c.
func (w *webClient) exchange(c *call, k kind) *webExchange {
	x := &webExchange{web: w, call: c, in: w.speaks(k), kind: k, conns: w.conns}
	if c.statsOn() {
		x.out = new(webOut)
	}
	for _, p := range c.info.creds {
		if p.RequireTransportSecurity() {
			x.conns = w.hidden
		}
	}
	return x
}

// authInfo is the AuthInfo for per-RPC credentials.
func (x *webExchange) authInfo() credentials.AuthInfo {
	if x.conns == nil {
		return x.web.promised()
	}
	return x.conns.authInfo()
}

// context returns the context of a request: it ends with the call's, with the client, and with the function
// that it returns.
func (w *webClient) context(c *call) (context.Context, func()) {
	ctx, cancel := context.WithCancel(c.tagged)
	stop := context.AfterFunc(w.closed, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// request makes the request without its body.
func (x *webExchange) request(ctx context.Context) (*http.Request, error) {
	c := x.call
	if c.info.authority != "" {
		return nil, status.Errorf(codes.Unimplemented, "rpc: caller set CallAuthority, which clients of %v do not support", c.cc.opts.protocol)
	}
	if !strings.HasPrefix(c.method, "/") { // it would go on with the last name of the base's path
		return nil, status.Errorf(codes.Unimplemented, "malformed method name: %q", c.method)
	}
	fs, err := c.cc.appendCallMetadata(nil, &c.request, c.cc.opts.perRPC, c.cc.authority, x.authInfo())
	if err != nil {
		return nil, err
	}
	u := x.web.base
	u.Path += c.method
	r := &http.Request{Method: http.MethodPost, URL: &u, Host: c.cc.authority, Header: make(http.Header, 8+len(fs)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for _, f := range fs {
		r.Header.Add(f.Name, f.Value)
	}
	r.Header.Set("User-Agent", c.agentName())
	// Compression is the protocol's, not the transport's.
	r.Header.Set("Accept-Encoding", "identity")
	if previous := c.retry.attempts - 1; previous > 0 {
		r.Header.Set("Grpc-Previous-Rpc-Attempts", strconv.Itoa(previous))
	}
	x.in.request(c, r.Header)
	x.out.made()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		x.mu.Lock()
		x.at.Addr, x.at.LocalAddr = info.Conn.RemoteAddr(), info.Conn.LocalAddr()
		if c, ok := info.Conn.(*webConn); ok {
			x.at.AuthInfo = c.auth
		}
		x.hasConn = true
		x.connected.Notify()
		x.mu.Unlock()
		x.begun.Store(true)
		x.statsOut()
	}}
	return r.WithContext(httptrace.WithClientTrace(ctx, trace)), nil
}

// codecName is the codec's name in content types.
func (c *call) codecName() string {
	if c.info.subtype != "" {
		return c.info.subtype
	}
	if name := c.info.codec.Name(); name != "" {
		return name
	}
	return message.Proto{}.Name() // of a codec of CallCustomCodec, whose name is not sent
}

// agentName is the user agent of the call.
func (c *call) agentName() string {
	if c.info.agent != nil {
		return c.info.agent.name + userAgent
	}
	return c.cc.opts.userAgent + userAgent
}

// encode makes the message of a unary call's request in the protocol's form.
func (x *webExchange) encode(v any) (message.Message, payloadInfo, error) {
	m, info, err := x.call.encodeUnary(v)
	if err != nil || !x.in.framing().plain {
		return m, info, err
	}
	info.wire = info.packed
	return withoutPrefix(m), info, nil
}

// withoutPrefix takes ownership of a framed message and returns it without its prefix, to be freed by
// the caller.
func withoutPrefix(m message.Message) message.Message {
	if m.Chain == nil {
		return message.Message{Buf: m.Buf.Narrow(message.PrefixLen, m.Buf.Len())}
	}
	if _, err := m.Chain.Discard(message.PrefixLen); err != nil {
		panic(err) // Frame has written it
	}
	return m
}

// maxGetURL is the length in bytes of the longest URL of a GET.
const maxGetURL = 8 << 10

// get makes r a GET with m in its query, if the method allows it and the query is not too long. It reports
// whether it did; m is borrowed.
func (x *webExchange) get(r *http.Request, m *message.Message) bool {
	c := x.call
	if !x.web.get || !web.SideEffectFree(c.method) || m.Len() > maxGetURL {
		return false
	}
	// In the order that the protocol recommends, so that caches have one entry for a request.
	query := "connect=v" + web.ConnectVersion + "&base64=1"
	if c.info.compressor != nil && m.Len() > 0 {
		query += "&compression=" + url.QueryEscape(c.info.compressor.Name())
	}
	query += "&encoding=" + url.QueryEscape(c.codecName()) + "&message=" + base64.RawURLEncoding.EncodeToString(m.Flatten())
	u := *r.URL
	u.RawQuery = query
	if len(u.RequestURI()) > maxGetURL {
		return false
	}
	r.Method, r.URL = http.MethodGet, &u
	for _, name := range []string{"Content-Type", "Content-Encoding", "Connect-Protocol-Version"} {
		r.Header.Del(name)
	}
	return true
}

// requestMessage is the content of a request that consists of one message, which it owns. The transport may ask for the body again until the
// request has been answered; each body has its own reference.
type requestMessage struct {
	mu     sync.Mutex
	m      message.Message
	over   bool
	bodies []*messageBody
	first  [1]*messageBody // the initial array of bodies
}

// set makes b the body of r.
func (b *requestMessage) set(r *http.Request) {
	if b.m.Len() == 0 {
		r.Body, r.GetBody = http.NoBody, func() (io.ReadCloser, error) { return http.NoBody, nil }
		return
	}
	r.ContentLength = int64(b.m.Len())
	b.bodies = b.first[:0]
	r.Body, _ = b.open()
	r.GetBody = b.open
}

func (b *requestMessage) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil, errCallOver
	}
	o := &messageBody{m: b.m.Ref()}
	b.bodies = append(b.bodies, o)
	return o, nil
}

// free frees the message. What the transport has not closed yet keeps its references.
func (b *requestMessage) free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		b.m.Free()
	}
}

// end is called when the call has ended. A round tripper of the application's may use the message no longer.
func (b *requestMessage) end(conns *webConns) {
	if conns == nil {
		b.revoke()
		return
	}
	b.free()
}

// revoke takes the message away from a round tripper that may still use it. A nil b has none.
func (b *requestMessage) revoke() {
	if b == nil {
		return
	}
	b.free()
	for _, o := range b.bodies { // no more are opened
		_ = o.Close() // always nil
	}
}

// messageBody is a request's body that consists of one message, which it owns. A transport may close it while
// another of its goroutines reads.
type messageBody struct {
	mu   sync.Mutex
	m    message.Message
	read int // bytes of m.Buf
	over bool
}

// Read implements io.Reader.
func (b *messageBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, errCallOver
	case b.m.Chain != nil:
		return b.m.Chain.Read(p)
	case b.read == b.m.Buf.Len():
		return 0, io.EOF
	}
	n := copy(p, b.m.Buf.Bytes()[b.read:])
	b.read += n
	return n, nil
}

// Close frees the message.
func (b *messageBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over = true
		b.m.Free()
	}
	return nil
}

// notSent is the status of a request that the round tripper failed to make.
func (x *webExchange) notSent(err error) error {
	var dial *dialError
	var op *net.OpError
	if errors.As(err, &dial) || errors.As(err, &op) && op.Op == "dial" {
		x.seen = unreached
		x.begun.Store(false)
	} else {
		_, x.seen = resetStatus(err)
	}
	return x.failure(err)
}

// send sends r and reads the response's header. The error is a status. When the header ends the response, the
// error is nil and the exchange has ended.
func (x *webExchange) send(r *http.Request) error {
	c := x.call
	c.seen.set(receiving)
	returned := false
	defer func() {
		if !returned { // a stats handler has panicked, or ended the goroutine
			x.upload.revoke()
		}
	}()
	var res *http.Response
	var err error
	if x.conns != nil {
		res, err = x.conns.RoundTrip(r)
	} else {
		x.begun.Store(true) // a round tripper need not report its connections
		res, err = roundTripAside(x.web.rt, r, x.upload, c.cc.opts.pool)
	}
	returned = true
	if err != nil {
		return x.notSent(err)
	}
	x.res = res
	x.body = webBody{r: res.Body, refs: (*responseRefs)(res), pool: c.cc.opts.pool, limit: c.info.maxRecv}
	x.body.plain, x.body.in.Ends = x.in.framing().plain, x.in.framing().ends
	if x.header, err = receivedHeader(res.Header); err != nil {
		return err
	}
	if st := x.in.answered(x, res); st != nil {
		x.finish(st)
	}
	return nil
}

// responseRefs is a response as a refsSource.
type responseRefs http.Response

func (r *responseRefs) AppendBody(c *tarn.Chain) error {
	return h2http.ResponseChain((*http.Response)(r), c)
}

// receivedHeader is the metadata of a response's header.
func receivedHeader(h http.Header) (metadata.MD, error) {
	md := metadata.MD{}
	for _, f := range lowerFields(h) {
		if st := addReceived(md, f); st != nil {
			return nil, st.Err()
		}
	}
	return md, nil
}

// failure is the status of a request without a response, or with an incomplete one.
func (x *webExchange) failure(err error) error {
	var reset *h2.StreamError
	switch {
	case x.call.ctx.Err() != nil:
		return status.FromContextError(x.call.ctx.Err()).Err()
	case x.call.late(): // a connection's deadline, which is the call's while it is made, may pass before the context's timer fires
		return status.FromContextError(context.DeadlineExceeded).Err()
	case x.web.closed.Err() != nil:
		return ErrClientConnClosing
	case errors.As(err, &reset):
		st, _ := streamErrorStatus(reset)
		return x.call.failure(st)
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, "rpc: the call failed on the connection: "+err.Error())
}

// decompressBy sets the compression of the response's messages.
func (x *webExchange) decompressBy(name string) *status.Status {
	if identity(name) {
		return nil
	}
	c, err := x.call.info.decompressor(name)
	if err != nil {
		return status.Convert(err)
	}
	x.incoming, x.body.kind = c, message.Compressed
	return nil
}

// maxErrorBody is how many bytes of an error in JSON are read.
const maxErrorBody = 64 << 10

// connectFailure is the status of a response whose HTTP status is not 200.
func (x *webExchange) connectFailure(res *http.Response) *status.Status {
	code := web.CodeOf(res.StatusCode)
	plain := status.Newf(code, "rpc: the server answered with HTTP status %s", res.Status)
	if contentTypeOf(res, "application/json") != nil {
		return plain
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return plain
	}
	if name := res.Header.Get("Content-Encoding"); !identity(name) {
		c := encoding.GetCompressor(name)
		if c == nil {
			return plain
		}
		r, err := message.Decompressor(c, bytes.NewReader(text))
		if err != nil {
			return plain
		}
		text, err = io.ReadAll(io.LimitReader(r, maxErrorBody))
		if cerr := r.Close(); err != nil || cerr != nil {
			return plain
		}
	}
	var e web.Error
	if json.Unmarshal(text, &e) != nil || e.Code == "" && e.Message == "" {
		return plain
	}
	return e.Status(code)
}

// finish ends the exchange with a status, nil being OK.
func (x *webExchange) finish(st *status.Status) {
	if !x.ended {
		x.ended, x.status = true, st
	}
}

// next returns the next message, to be freed by the caller; io.EOF or errStatus at the end.
func (x *webExchange) next() received {
	if x.ended {
		return x.over()
	}
	r := x.body.next()
	ends := x.in.framing().ends
	switch {
	case errors.Is(r.err, io.EOF):
		if x.in.framing().plain {
			x.finish(nil)
		} else {
			x.finish(status.New(codes.Internal, "rpc: the server ended the response without a status"))
		}
		return x.over()
	case r.err != nil:
		return r
	case r.kind&ends != 0:
		x.readEnd(&r)
		return x.over()
	}
	return r
}

// readEnd takes ownership of the frame in r, which ends the response, and parses it. The response's body must end there, so that
// an HTTP/1.1 connection can be used again.
func (x *webExchange) readEnd(r *received) {
	m := r.msg
	if r.kind&message.Compressed != 0 && m.Len() > 0 {
		if x.incoming == nil {
			m.Free()
			x.finish(status.New(codes.Internal, "grpc: compressed flag set with identity or empty encoding"))
			return
		}
		var err error
		if m, err = message.Decompress(x.call.cc.opts.pool, x.incoming, m, max(x.body.limit, message.LongestEnd)); err != nil {
			x.finish(status.Newf(codes.Internal, "grpc: failed to decompress the end of the stream: %v", err))
			return
		}
	}
	st, trailer := x.in.end(m.Flatten())
	m.Free()
	if after := x.body.next(); after.err == nil {
		after.msg.Free()
		st = status.New(codes.Internal, "rpc: the server sent a message after the end of the stream")
	}
	x.trailer = trailer
	x.finish(st)
}

// over is the result of next at the end.
func (x *webExchange) over() received {
	if x.status == nil {
		return received{err: io.EOF}
	}
	return received{err: errStatus}
}

// decode takes ownership of the message in r, from which it fills v.
func (x *webExchange) decode(r *received, v any) error {
	c := x.call
	defer r.msg.Free() // unless it has been decoded; also if a hook panics
	if c.statsOn() {
		x.statsInHeader()
	}
	n, err := decodeMessage(c.cc.opts.pool, c.info.codec, x.incoming, c.info.maxRecv, r, c.info.lease.memory(), v)
	c.info.lease.keep()
	if err == nil && c.statsOn() {
		c.statsInPayload(v, n, r)
	}
	return err
}

// release closes the response. No other goroutine uses the exchange.
func (x *webExchange) release() {
	if x.res == nil {
		return
	}
	x.body.free()
	x.res.Body.Close()
}

// headerMD is the response's header for the application; nil: none was received.
func (x *webExchange) headerMD() metadata.MD { return x.header }

// trailerMD is the trailer for the application.
func (x *webExchange) trailerMD() metadata.MD { return x.trailer }

// received implements outcome.
func (x *webExchange) received() (trailer metadata.MD, any bool) {
	return x.trailer, x.trailer != nil || x.header != nil
}

// reached implements outcome.
func (x *webExchange) reached() bool { return x.begun.Load() }

// server is the peer; nil: no connection was made.
func (x *webExchange) server() *peer.Peer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at.Addr == nil {
		return nil
	}
	p := x.at
	return &p
}
