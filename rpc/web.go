package rpc

import (
	"mime"
	"net/http"
	"strings"

	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/web"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ServeHTTP serves one call received by net/http, so that a Server can be the handler of an http.Server, of
// httptest, or of a mux beside other handlers. The content type selects the protocol:
//
//   - gRPC (application/grpc), over HTTP/2 only;
//   - gRPC-Web, binary and text (application/grpc-web, application/grpc-web-text);
//   - Connect (https://connectrpc.com/docs/protocol): unary calls (application/json, application/proto),
//     streams (application/connect+json, application/connect+proto), and GET for methods whose
//     idempotency_level is NO_SIDE_EFFECTS.
//
// Handlers, interceptors, statistics handlers, limits, compressors, codecs and the pool are the same as for
// calls of Serve. Bidirectional streams need HTTP/2; over HTTP/1.1 they are refused with 505. Transport
// credentials, keepalive and connection limits are set on the http.Server. Stop cancels the calls that
// ServeHTTP is serving, and their clients get UNAVAILABLE; GracefulStop waits for them. After Stop or
// GracefulStop calls are refused with 503. ServeHTTP may be called before, during and without Serve,
// concurrently.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &webCall{srv: s, w: w, r: r, list: fields.Of(w)}
	if !s.enter(c) {
		http.Error(w, "the server has been stopped", http.StatusServiceUnavailable)
		return
	}
	defer s.leave(c)
	if s.opts.cors.answer(c) {
		return
	}
	no := c.open()
	if no != nil && !no.tapped {
		c.refuse(no)
		return
	}
	c.serve(no)
}

// enter counts c's handler and lets Stop end c, unless the server has been stopped. After the first call nothing more can be
// registered.
func (s *Server) enter(c *webCall) bool {
	if !s.serving.Load() {
		s.mu.Lock() // RegisterService may be adding
		s.serving.Store(true)
		s.mu.Unlock()
	}
	return s.calls.add(c, &s.handlers)
}

// leave takes back what enter has done, when nothing more is written. What ends c meanwhile does not use its ResponseWriter any more.
func (s *Server) leave(c *webCall) {
	s.calls.remove(c)
	c.returned()
	s.handlers.Done()
}

// webRefusal is the answer to a request that does not become a call.
type webRefusal struct {
	httpStatus int
	header     http.Header // more response fields; nil: none
	st         *status.Status
	tapped     bool // the tap is asked before
	// unregistered: of a method that no service has, which is reported to statistics handlers
	unregistered bool
}

// webProtocol encodes a response in one protocol. Its methods are called with webCall.sendMu held.
type webProtocol interface {
	// header sets the response's fields, before anything is written.
	header()
	// message writes one framed message, of which it takes ownership, and returns how many bytes it took.
	message(m message.Message, info payloadInfo) (int, error)
	// end writes the status, nil for OK, and the trailer. begun says whether the header has been written. An error means that the client
	// has gone.
	end(st *status.Status, begun headerState) error
}

// open parses the request's header: protocol, method, codec, compression, deadline and metadata.
func (c *webCall) open() *webRefusal {
	if c.r.Method == http.MethodGet {
		return c.openGet()
	}
	mediaType := c.field("Content-Type")
	if !web.BareMediaType(mediaType) { // parsing allocates
		var err error
		if mediaType, _, err = mime.ParseMediaType(mediaType); err != nil {
			return c.unsupported()
		}
	}
	if c.r.Method != http.MethodPost {
		return &webRefusal{httpStatus: http.StatusMethodNotAllowed, header: http.Header{"Allow": {http.MethodPost}},
			st: status.Newf(codes.Unknown, "calls are made with POST, not %s", c.r.Method)}
	}
	sub, ok := strings.CutPrefix(mediaType, "application/")
	if !ok {
		return c.unsupported()
	}
	base, codec, _ := strings.Cut(sub, "+")
	switch base {
	case "grpc":
		if c.r.ProtoMajor < 2 {
			return &webRefusal{httpStatus: http.StatusHTTPVersionNotSupported,
				st: status.New(codes.Unimplemented, "gRPC needs HTTP/2; gRPC-Web and Connect do not")}
		}
		return c.openGRPC((*webGRPC)(c), codec)
	case "grpc-web":
		return c.openGRPC(&webFrames{call: c}, codec)
	case "grpc-web-text":
		return c.openGRPC(&webFrames{call: c, text: base64Text}, codec)
	case "connect":
		return c.openConnectStream(codec)
	}
	if strings.Contains(sub, "+") {
		return c.unsupported()
	}
	return c.openConnectUnary(sub)
}

// values returns the values of a request's field, whose name is in canonical form. They must not be changed.
func (c *webCall) values(name string) []string {
	if c.list != nil {
		return c.list.Get(name)
	}
	return c.r.Header[name]
}

// field is the first value of a request's field, whose name is in canonical form; "" without one.
func (c *webCall) field(name string) string {
	if vs := c.values(name); len(vs) > 0 {
		return vs[0]
	}
	return ""
}

// eachField calls f with each of the request's fields and its values, until f returns false.
func (c *webCall) eachField(f func(name string, values []string) bool) {
	if c.list != nil {
		c.list.All(f)
		return
	}
	for name, values := range c.r.Header {
		if !f(name, values) {
			return
		}
	}
}

// unsupported refuses a content type, and lists the supported ones.
func (c *webCall) unsupported() *webRefusal {
	return &webRefusal{httpStatus: http.StatusUnsupportedMediaType,
		header: http.Header{"Accept-Post": {"application/grpc, application/grpc-web, application/grpc-web-text, application/json, application/proto, application/connect+json, application/connect+proto"}},
		st:     status.Newf(codes.Unknown, "content type %q is not of a protocol of this server", c.field("Content-Type"))}
}

// find looks the method up.
func (c *webCall) find() *webRefusal {
	c.path = c.r.URL.EscapedPath() // as it was sent: what checks paths in front of the server has seen no other
	st, ok := c.requested.find(c.srv)
	if st == nil {
		return nil
	}
	return &webRefusal{httpStatus: http.StatusNotFound, st: st, tapped: true, unregistered: ok}
}

// duplex refuses a bidirectional stream over HTTP/1.1.
func (c *webCall) duplex() *webRefusal {
	if c.r.ProtoMajor < 2 && c.clientStreams() && c.serverStreams() {
		// net/http would read the request's body first, which may be endless.
		return &webRefusal{httpStatus: http.StatusHTTPVersionNotSupported, header: http.Header{"Connection": {"close"}},
			st: status.New(codes.Unimplemented, "a stream in both directions needs HTTP/2")}
	}
	return nil
}

// codecFor sets the codec of a content subtype.
func (c *webCall) codecFor(subtype string) bool {
	if forced := c.srv.opts.codec; forced != nil {
		c.codec = forced
		return true
	}
	codec, ok := message.OrJSON(strings.ToLower(subtype))
	c.codec = codec
	return ok
}
