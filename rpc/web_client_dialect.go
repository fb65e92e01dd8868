package rpc

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// dialect encodes a request and decodes a response in one protocol, for a client.
type dialect interface {
	// framing says how messages are separated.
	framing() framing
	// responses holds the errors for a wrong number of responses.
	responses() count
	// request sets the request's fields.
	request(c *call, h http.Header)
	// answered processes the response's header; a status means that no message follows.
	answered(x *webExchange, res *http.Response) *status.Status
	// end parses the frame that ends a response: its status, nil for OK, and trailer.
	end(text []byte) (*status.Status, metadata.MD)
}

// dialectMaker chooses the dialect of a call.
type dialectMaker func(k kind) dialect

// framing says how messages in a body are separated.
type framing struct {
	plain bool         // the body is one message
	ends  message.Kind // the flag of the frame that ends a response
}

func newWebFramesDialect(kind) dialect { return webFramesDialect{} }

func newConnectDialect(k kind) dialect {
	if k == kindUnary {
		return connectUnaryDialect{}
	}
	return connectStreamDialect{}
}

// webFramesDialect is gRPC-Web.
type webFramesDialect struct{}

func (webFramesDialect) framing() framing { return framing{ends: trailerFlag} }

func (webFramesDialect) responses() count { return responseCount }

func (webFramesDialect) request(c *call, h http.Header) {
	h.Set("Content-Type", "application/grpc-web+"+c.codecName())
	h.Set("X-Grpc-Web", "1")
	h.Set("X-User-Agent", c.agentName())
	if c.deadline {
		var space [12]byte
		h.Set("Grpc-Timeout", string(header.AppendTimeout(space[:0], time.Until(c.at))))
	}
	if c.info.compressor != nil {
		h.Set("Grpc-Encoding", c.info.compressor.Name())
	}
	if accepts := c.info.accepts(c.cc); accepts != "" {
		h.Set("Grpc-Accept-Encoding", accepts)
	}
}

func (webFramesDialect) answered(x *webExchange, res *http.Response) *status.Status {
	if res.Header.Get("Grpc-Status") != "" && (res.StatusCode != http.StatusOK || x.body.empty()) { // a trailers-only response
		st, trailer := readGRPCStatus(lowerFields(res.Header))
		x.header, x.trailer = nil, trailer
		x.finish(st)
		return nil
	}
	if res.StatusCode != http.StatusOK {
		x.header = nil
		return status.Newf(header.FromHTTP(res.StatusCode), "rpc: the server answered with HTTP status %s", res.Status)
	}
	if st := contentTypeOf(res, "application/grpc-web"); st != nil {
		return st
	}
	return x.decompressBy(res.Header.Get("Grpc-Encoding"))
}

func (webFramesDialect) end(text []byte) (*status.Status, metadata.MD) {
	var fields []webField
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return status.Newf(codes.Internal, "rpc: the server's trailer has a line without a colon: %q", line), nil
		}
		fields = append(fields, webField{strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)})
	}
	return readGRPCStatus(fields)
}

// webField is one header field, its name in lower case.
type webField struct{ name, value string }

// lowerFields lists a header's fields.
func lowerFields(h http.Header) []webField {
	fs := make([]webField, 0, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		for _, v := range values {
			fs = append(fs, webField{name, v})
		}
	}
	return fs
}

// readGRPCStatus reads the fields of a trailer: the status, nil for OK, and the metadata.
func readGRPCStatus(fs []webField) (*status.Status, metadata.MD) {
	md := metadata.MD{}
	text, msg, details, found := "", "", "", false
	for _, f := range fs {
		switch f.name {
		case "grpc-status":
			text, found = f.value, true
		case "grpc-message":
			msg = f.value
		case detailsKey:
			details = f.value
		}
		if st := addReceived(md, f); st != nil {
			return st, nil
		}
	}
	if !found {
		return status.New(codes.Unknown, "rpc: the server ended the call without grpc-status"), md
	}
	code, ok := header.ParseStatus(text)
	switch {
	case !ok:
		return status.Newf(codes.Internal, "transport: malformed grpc-status %q", text), md
	case code == codes.OK:
		return nil, md
	case details != "":
		return withDetails(status.New(code, header.DecodeMessage(msg)), details), md
	}
	return status.New(code, header.DecodeMessage(msg)), md
}

// addReceived adds a response field that is metadata.
func addReceived(md metadata.MD, f webField) *status.Status {
	if !header.ReceivedByWeb(f.name) {
		return nil
	}
	if err := addValues(md, f.name, f.value); err != nil {
		return status.Newf(codes.Internal, "transport: malformed %s: %v", f.name, err)
	}
	return nil
}

// contentTypeOf refuses a response of another protocol.
func contentTypeOf(res *http.Response, want string) *status.Status {
	if base := mediaType(res); base == want || strings.HasPrefix(base, want+"+") {
		return nil
	}
	return status.Newf(codes.Unknown, wrongContentType, res.Header.Get("Content-Type"), want)
}

// connectContentType refuses a response of Connect in another codec, with INTERNAL, and one of another protocol, with
// UNKNOWN, as connect-go does.
func connectContentType(res *http.Response, prefix, codec string) *status.Status {
	got := mediaType(res)
	code := codes.Unknown
	switch {
	case got == prefix+codec:
		return nil
	case strings.HasPrefix(got, prefix):
		code = codes.Internal
	}
	return status.Newf(code, wrongContentType, res.Header.Get("Content-Type"), prefix+codec)
}

const wrongContentType = "rpc: the server answered with content type %q, not %s"

// mediaType is the content type without its parameters.
func mediaType(res *http.Response) string {
	base, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(base)
}

// connectRequest sets the fields of a request of Connect. typePrefix precedes the codec's name in the content
// type, and encodingPrefix the names of the fields about compression.
func connectRequest(c *call, h http.Header, typePrefix, encodingPrefix string) {
	h.Set("Connect-Protocol-Version", connectVersion)
	h.Set("Content-Type", typePrefix+c.codecName())
	if c.info.compressor != nil {
		h.Set(encodingPrefix+"Content-Encoding", c.info.compressor.Name())
	}
	if accepts := c.info.accepts(c.cc); accepts != "" {
		h.Set(encodingPrefix+"Accept-Encoding", accepts)
	}
	if c.deadline {
		// The protocol has ten digits: a later deadline is not sent.
		if ms := time.Until(c.at).Milliseconds(); ms < 1e10 {
			h.Set("Connect-Timeout-Ms", strconv.FormatInt(max(ms, 0), 10))
		}
	}
}

// connectUnaryDialect is a unary call of Connect: the body is the message.
type connectUnaryDialect struct{}

func (connectUnaryDialect) framing() framing { return framing{plain: true} }

func (connectUnaryDialect) responses() count { return responseCount.in(connectCardinality) }

func (connectUnaryDialect) request(c *call, h http.Header) {
	connectRequest(c, h, applicationType, "")
}

func (connectUnaryDialect) answered(x *webExchange, res *http.Response) *status.Status {
	x.header, x.trailer = metadata.MD{}, metadata.MD{}
	for _, f := range lowerFields(res.Header) {
		md := x.header
		if name, ok := strings.CutPrefix(f.name, "trailer-"); ok {
			f.name, md = name, x.trailer
		}
		if st := addReceived(md, f); st != nil {
			return st
		}
	}
	if res.StatusCode != http.StatusOK {
		// An error's metadata may be in either; in gRPC it is in the trailer.
		x.header, x.trailer = nil, metadata.Join(x.header, x.trailer)
		return x.connectFailure(res)
	}
	if st := connectContentType(res, applicationType, x.call.codecName()); st != nil {
		return st
	}
	return x.decompressBy(res.Header.Get("Content-Encoding"))
}

func (connectUnaryDialect) end([]byte) (*status.Status, metadata.MD) { return nil, nil }

// connectStreamDialect is a stream of Connect.
type connectStreamDialect struct{}

func (connectStreamDialect) framing() framing { return framing{ends: endStreamFlag} }

func (connectStreamDialect) responses() count { return responseCount.in(connectCardinality) }

func (connectStreamDialect) request(c *call, h http.Header) {
	connectRequest(c, h, connectType, "Connect-")
}

func (connectStreamDialect) answered(x *webExchange, res *http.Response) *status.Status {
	if res.StatusCode != http.StatusOK {
		return x.connectFailure(res)
	}
	if st := connectContentType(res, connectType, x.call.codecName()); st != nil {
		return st
	}
	return x.decompressBy(res.Header.Get("Connect-Content-Encoding"))
}

func (connectStreamDialect) end(text []byte) (*status.Status, metadata.MD) {
	var end struct {
		Error    *connectError       `json:"error"`
		Metadata map[string][]string `json:"metadata"`
	}
	if err := json.Unmarshal(text, &end); err != nil {
		return status.Newf(codes.Internal, "rpc: the server's end of the stream is malformed: %v", err), nil
	}
	md := metadata.MD{}
	for name, values := range end.Metadata {
		for _, v := range values {
			if st := addReceived(md, webField{strings.ToLower(name), v}); st != nil {
				return st, nil
			}
		}
	}
	if end.Error == nil {
		return nil, md
	}
	return end.Error.status(codes.Unknown), md
}

// status converts the error to a status. code is used for an error without a code, or with an unknown one.
func (e *connectError) status(code codes.Code) *status.Status {
	if i := slices.IndexFunc(connectCodes[:], func(c connectCodeOf) bool { return c.name != "" && c.name == e.Code }); i >= 0 {
		code = codes.Code(i)
	}
	p := status.New(code, e.Message).Proto()
	for _, d := range e.Details {
		value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "="))
		if err != nil {
			continue // as connect-go does: the detail is not valid base64
		}
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: value})
	}
	return status.FromProto(p)
}

// connectFromHTTP is the code of a response that is not an error of the protocol
// (https://connectrpc.com/docs/protocol#http-to-error-code).
func connectFromHTTP(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.Internal
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Unknown
}
