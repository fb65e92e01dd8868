package rpc

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// connectCardinality is the code of a wrong number of messages. It is gRPC's, too, but not grpc-go's.
const connectCardinality = codes.Unimplemented

// earlyTrailer precedes the names of the trailer's fields in the header of a unary call's response.
const earlyTrailer = "trailer-"

// openConnectUnary parses the header of a POST whose body is a message.
func (c *webCall) openConnectUnary(codec string) *webRefusal {
	c.proto, c.early = (*webConnectUnary)(c), true
	c.body = webBody{r: (*requestBody)(c), refs: refsOf(c.w, c.r), pool: c.srv.opts.pool, limit: c.srv.opts.maxRecv, plain: true}
	if no := c.find(); no != nil {
		return no
	}
	if c.method == nil || c.method.unary == nil || !c.codecFor(codec) {
		return c.unsupported()
	}
	if no := c.connectCommon(c.field("Connect-Protocol-Version")); no != nil {
		return no
	}
	return c.connectCompression(c.field("Content-Encoding"), c.field("Accept-Encoding"))
}

// openGet decodes the message of a unary call without side effects from the query.
func (c *webCall) openGet() *webRefusal {
	c.proto, c.early = (*webConnectUnary)(c), true
	if no := c.find(); no != nil {
		return no
	}
	if c.method == nil || c.method.unary == nil || !web.SideEffectFree(c.path) {
		return &webRefusal{httpStatus: http.StatusMethodNotAllowed, header: http.Header{"Allow": {http.MethodPost}},
			st: status.Newf(codes.Unimplemented, "%s is called with POST: its idempotency_level is not NO_SIDE_EFFECTS", c.path)}
	}
	query, ok := web.ReadQuery(c.r.URL.Query())
	if !ok {
		return &webRefusal{httpStatus: http.StatusBadRequest,
			st: status.New(codes.InvalidArgument, "the query needs encoding and message")}
	}
	if !c.codecFor(query.Codec) {
		return c.unsupported()
	}
	if no := c.connectCommon(query.Version); no != nil {
		return no
	}
	if no := c.connectCompression(query.Compression, c.field("Accept-Encoding")); no != nil {
		return no
	}
	text, err := query.Message()
	if err != nil {
		return &webRefusal{httpStatus: http.StatusBadRequest, st: status.New(codes.InvalidArgument, "the query's message is not base64: "+err.Error())}
	}
	kind := c.body.kind
	c.body = webBody{r: strings.NewReader(text), pool: c.srv.opts.pool, limit: c.srv.opts.maxRecv, plain: true, kind: kind}
	return nil
}

// openConnectStream parses the header of a stream's request.
func (c *webCall) openConnectStream(codec string) *webRefusal {
	c.proto = &webConnectStream{call: c}
	c.body = webBody{r: (*requestBody)(c), refs: refsOf(c.w, c.r), pool: c.srv.opts.pool, limit: c.srv.opts.maxRecv}
	if no := c.find(); no != nil {
		if no.httpStatus == http.StatusNotFound {
			no.httpStatus = http.StatusOK // the end of the stream contains it
		}
		return no
	}
	if no := c.duplex(); no != nil {
		return no
	}
	if c.method != nil && c.method.unary != nil || !c.codecFor(codec) {
		c.proto = (*webConnectUnary)(c)
		return c.unsupported()
	}
	if no := c.connectCommon(c.field("Connect-Protocol-Version")); no != nil {
		no.httpStatus = http.StatusOK
		return no
	}
	no := c.connectCompression(c.field("Connect-Content-Encoding"), c.field("Connect-Accept-Encoding"))
	if no != nil {
		no.httpStatus = http.StatusOK
	}
	return no
}

// connectCommon parses the fields that unary calls and streams share.
func (c *webCall) connectCommon(version string) *webRefusal {
	if version != "" && version != web.ConnectVersion {
		return &webRefusal{httpStatus: http.StatusBadRequest,
			st: status.Newf(codes.InvalidArgument, "version %q of the Connect protocol is not known: it is %s", version, web.ConnectVersion)}
	}
	text := c.field("Connect-Timeout-Ms")
	if text == "" {
		return nil
	}
	ms, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(text) > 10 {
		return &webRefusal{httpStatus: http.StatusBadRequest,
			st: status.Newf(codes.InvalidArgument, "connect-timeout-ms %q is not a number of at most ten digits", text)}
	}
	c.within(time.Duration(ms) * time.Millisecond)
	return nil
}

// connectCompression finds the compressors of request and response.
func (c *webCall) connectCompression(request, accepted string) *webRefusal {
	if !identity(request) {
		c.encoding = request
		if c.compressor = compressorOf(request); c.compressor == nil {
			return &webRefusal{httpStatus: http.StatusNotImplemented, tapped: true, st: status.Newf(codes.Unimplemented,
				"compression %q is not known; there are %s", request, strings.ReplaceAll(c.srv.accepts, ",", ", "))}
		}
		c.body.kind = message.Compressed
	}
	for name := range web.Acceptable(accepted) {
		if c.outgoing = compressorOf(name); c.outgoing != nil {
			break
		}
	}
	return nil
}

// webConnectUnary is a unary call of the Connect protocol: the body is the message.
type webConnectUnary webCall

func (p *webConnectUnary) call() *webCall { return (*webCall)(p) }

const (
	applicationType = "application/"         // precedes the codec in the content type of a unary call; the prefix of all protocols' types
	connectType     = "application/connect+" // precedes the codec in the content type of a stream
)

func (p *webConnectUnary) header() {
	c := p.call()
	name := c.codec.Name()
	if same := c.sameContentType(); same[0] == applicationType+name {
		c.set("Content-Type", same...)
	} else {
		c.set("Content-Type", applicationType+name)
	}
	if c.r.Method == http.MethodGet {
		c.w.Header().Add("Vary", "Accept-Encoding")
	}
	if c.srv.accepts != "" {
		c.set("Accept-Encoding", c.srv.acceptsField...)
	}
}

// declaredByHTTP is the length in bytes of a response up to which the servers of net/http (HTTP/1.1 and HTTP/2)
// and h2http buffer it, and declare its length with less work than by a field.
const declaredByHTTP = 2 << 10

func (p *webConnectUnary) message(m message.Message, info payloadInfo) (int, error) {
	m = withoutPrefix(m)
	if p.call().outgoing != nil && info.plain > 0 {
		p.call().set("Content-Encoding", p.call().outgoing.Name())
	}
	if m.Len() > declaredByHTTP {
		p.call().set("Content-Length", strconv.Itoa(m.Len()))
	}
	return info.packed, writeMessage(p.call().w, m)
}

func (p *webConnectUnary) end(st *status.Status, begun headerState) error {
	if st == nil || begun == headerWritten {
		return nil
	}
	h := p.call().w.Header()
	for _, name := range []string{"Content-Encoding", "Content-Length"} {
		h.Del(name)
	}
	return writeConnectError(p.call().w, web.HTTPStatus(st.Code()), st)
}

func (p *webConnectUnary) refuse(no *webRefusal) {
	// A failure means that the client has gone.
	_ = writeConnectError(p.call().w, no.httpStatus, no.st)
}

// webConnectStream is a stream of the Connect protocol: enveloped messages, the last of which is the
// status.
type webConnectStream struct{ call *webCall }

func (p *webConnectStream) header() {
	p.call.set("Content-Type", connectType+p.call.codec.Name())
	if p.call.outgoing != nil {
		p.call.set("Connect-Content-Encoding", p.call.outgoing.Name())
	}
	if p.call.srv.accepts != "" {
		p.call.set("Connect-Accept-Encoding", p.call.srv.acceptsField...)
	}
}

func (p *webConnectStream) message(m message.Message, info payloadInfo) (int, error) {
	return info.wire, writeMessage(p.call.w, m)
}

func (p *webConnectStream) end(st *status.Status, begun headerState) error {
	if p.call.state != headerWritten {
		p.header()
	}
	return p.writeEnd(st, p.call.trailer)
}

// writeEnd writes the envelope that ends the stream.
func (p *webConnectStream) writeEnd(st *status.Status, trailer metadata.MD) error {
	_, err := p.call.w.Write(web.EndStream(st, appendMetadata(nil, trailer)))
	return err
}

func (p *webConnectStream) refuse(no *webRefusal) {
	// A failure means that the client has gone.
	if no.httpStatus != http.StatusOK {
		_ = writeConnectError(p.call.w, no.httpStatus, no.st)
		return
	}
	if p.call.codec == nil {
		p.call.codec = message.Proto{}
	}
	p.call.w.Header().Set("Content-Type", p.call.field("Content-Type"))
	_ = p.writeEnd(no.st, nil)
}

// writeConnectError answers with a status as JSON.
func writeConnectError(w http.ResponseWriter, httpStatus int, st *status.Status) error {
	text := web.ErrorJSON(st)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(httpStatus)
	_, err := w.Write(text)
	return err
}
