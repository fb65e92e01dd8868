package rpc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
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

func (webFramesDialect) framing() framing { return framing{ends: web.TrailerFlag} }

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
	fields, bad := web.ReadTrailer(text)
	if bad != "" {
		return status.Newf(codes.Internal, "rpc: the server's trailer has a line without a colon: %q", bad), nil
	}
	return readGRPCStatus(fields)
}

// lowerFields lists a header's fields, their names in lower case.
func lowerFields(h http.Header) []h2.Field {
	fs := make([]h2.Field, 0, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		for _, v := range values {
			fs = append(fs, h2.Field{Name: name, Value: v})
		}
	}
	return fs
}

// readGRPCStatus reads the fields of a trailer: the status, nil for OK, and the metadata.
func readGRPCStatus(fs []h2.Field) (*status.Status, metadata.MD) {
	md := metadata.MD{}
	text, msg, details, found := "", "", "", false
	for _, f := range fs {
		switch f.Name {
		case "grpc-status":
			text, found = f.Value, true
		case "grpc-message":
			msg = f.Value
		case detailsKey:
			details = f.Value
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
func addReceived(md metadata.MD, f h2.Field) *status.Status {
	if !header.ReceivedByWeb(f.Name) {
		return nil
	}
	if err := addValues(md, f.Name, f.Value); err != nil {
		return status.Newf(codes.Internal, "transport: malformed %s: %v", f.Name, err)
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
	h.Set("Connect-Protocol-Version", web.ConnectVersion)
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
		if name, ok := strings.CutPrefix(f.Name, "trailer-"); ok {
			f.Name, md = name, x.trailer
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

func (connectStreamDialect) framing() framing { return framing{ends: web.EndStreamFlag} }

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
	var end web.End
	if err := json.Unmarshal(text, &end); err != nil {
		return status.Newf(codes.Internal, "rpc: the server's end of the stream is malformed: %v", err), nil
	}
	md := metadata.MD{}
	for name, values := range end.Metadata {
		for _, v := range values {
			if st := addReceived(md, h2.Field{Name: strings.ToLower(name), Value: v}); st != nil {
				return st, nil
			}
		}
	}
	if end.Error == nil {
		return nil, md
	}
	return end.Error.Status(codes.Unknown), md
}
