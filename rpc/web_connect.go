package rpc

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// connectVersion is the only version of the Connect protocol.
const connectVersion = "1"

// connectCardinality is the code of a wrong number of messages. It is gRPC's, too, but not grpc-go's.
const connectCardinality = codes.Unimplemented

// endStreamFlag marks the envelope that ends a stream with its status and trailer.
const endStreamFlag = 0x02

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
	if c.method == nil || c.method.unary == nil || !sideEffectFree(c.path) {
		return &webRefusal{httpStatus: http.StatusMethodNotAllowed, header: http.Header{"Allow": {http.MethodPost}},
			st: status.Newf(codes.Unimplemented, "%s is called with POST: its idempotency_level is not NO_SIDE_EFFECTS", c.path)}
	}
	query := c.r.URL.Query()
	if !query.Has("message") || !query.Has("encoding") {
		return &webRefusal{httpStatus: http.StatusBadRequest,
			st: status.New(codes.InvalidArgument, "the query needs encoding and message")}
	}
	if !c.codecFor(query.Get("encoding")) {
		return c.unsupported()
	}
	version, _ := strings.CutPrefix(query.Get("connect"), "v")
	if no := c.connectCommon(version); no != nil {
		return no
	}
	if no := c.connectCompression(query.Get("compression"), c.field("Accept-Encoding")); no != nil {
		return no
	}
	text := query.Get("message")
	var data []byte
	if query.Get("base64") == "1" {
		var err error
		if data, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil {
			return &webRefusal{httpStatus: http.StatusBadRequest, st: status.New(codes.InvalidArgument, "the query's message is not base64: "+err.Error())}
		}
	} else {
		data = []byte(text)
	}
	kind := c.body.kind
	c.body = webBody{r: strings.NewReader(string(data)), pool: c.srv.opts.pool, limit: c.srv.opts.maxRecv, plain: true, kind: kind}
	return nil
}

// sideEffectFree reports whether a method's descriptor, if it is linked in, declares it free of side effects.
func sideEffectFree(path string) bool {
	service, name, _ := header.SplitMethod(path)
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return false
	}
	m := sd.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return false
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
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
	if version != "" && version != connectVersion {
		return &webRefusal{httpStatus: http.StatusBadRequest,
			st: status.Newf(codes.InvalidArgument, "version %q of the Connect protocol is not known: it is %s", version, connectVersion)}
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
	for name := range acceptable(accepted) {
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
	return writeConnectError(p.call().w, connectHTTPStatus(st.Code()), st)
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
	end := struct {
		Error    *connectError       `json:"error,omitempty"`
		Metadata map[string][]string `json:"metadata,omitempty"`
	}{Error: newConnectError(st)}
	for _, f := range appendMetadata(nil, trailer) {
		if end.Metadata == nil {
			end.Metadata = map[string][]string{}
		}
		end.Metadata[f.Name] = append(end.Metadata[f.Name], f.Value)
	}
	text, err := json.Marshal(end)
	if err != nil {
		text = []byte(`{"error":{"code":"internal"}}`) // impossible: all fields are strings
	}
	frame := make([]byte, message.PrefixLen, message.PrefixLen+len(text))
	frame[0] = endStreamFlag
	binary.BigEndian.PutUint32(frame[1:], uint32(len(text)))
	_, err = p.call.w.Write(append(frame, text...))
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

// connectError is a status in Connect's JSON form.
type connectError struct {
	Code    string          `json:"code"`
	Message string          `json:"message,omitempty"`
	Details []connectDetail `json:"details,omitempty"`
}

type connectDetail struct {
	Type  string `json:"type"`
	Value string `json:"value"` // base64 without padding
}

// newConnectError is nil for OK.
func newConnectError(st *status.Status) *connectError {
	if st.Code() == codes.OK {
		return nil
	}
	e := &connectError{Code: connectCode(st.Code()), Message: st.Message()}
	for _, d := range st.Proto().GetDetails() {
		name := d.GetTypeUrl()
		e.Details = append(e.Details, connectDetail{Type: name[strings.LastIndexByte(name, '/')+1:],
			Value: base64.RawStdEncoding.EncodeToString(d.GetValue())})
	}
	return e
}

// writeConnectError answers with a status as JSON.
func writeConnectError(w http.ResponseWriter, httpStatus int, st *status.Status) error {
	text, err := json.Marshal(newConnectError(st))
	if err != nil {
		text = []byte(`{"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(httpStatus)
	_, err = w.Write(text)
	return err
}

// connectCodeOf is Connect's name of a code.
type connectCodeOf struct {
	name       string
	httpStatus int
}

// connectCodes are the names and HTTP statuses of codes (https://connectrpc.com/docs/protocol#error-codes).
var connectCodes = [...]connectCodeOf{
	codes.Canceled:           {"canceled", 499},
	codes.Unknown:            {"unknown", http.StatusInternalServerError},
	codes.InvalidArgument:    {"invalid_argument", http.StatusBadRequest},
	codes.DeadlineExceeded:   {"deadline_exceeded", http.StatusGatewayTimeout},
	codes.NotFound:           {"not_found", http.StatusNotFound},
	codes.AlreadyExists:      {"already_exists", http.StatusConflict},
	codes.PermissionDenied:   {"permission_denied", http.StatusForbidden},
	codes.ResourceExhausted:  {"resource_exhausted", http.StatusTooManyRequests},
	codes.FailedPrecondition: {"failed_precondition", http.StatusBadRequest},
	codes.Aborted:            {"aborted", http.StatusConflict},
	codes.OutOfRange:         {"out_of_range", http.StatusBadRequest},
	codes.Unimplemented:      {"unimplemented", http.StatusNotImplemented},
	codes.Internal:           {"internal", http.StatusInternalServerError},
	codes.Unavailable:        {"unavailable", http.StatusServiceUnavailable},
	codes.DataLoss:           {"data_loss", http.StatusInternalServerError},
	codes.Unauthenticated:    {"unauthenticated", http.StatusUnauthorized},
}

func connectCode(c codes.Code) string {
	if c < codes.Code(len(connectCodes)) && connectCodes[c].name != "" {
		return connectCodes[c].name
	}
	return "unknown"
}

func connectHTTPStatus(c codes.Code) int {
	if c < codes.Code(len(connectCodes)) && connectCodes[c].httpStatus != 0 {
		return connectCodes[c].httpStatus
	}
	return http.StatusInternalServerError
}
