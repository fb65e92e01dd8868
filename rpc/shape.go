package rpc

import (
	"strings"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// shape is the content of a request's header list that does not differ from call to call. The connection
// caches it with the header list, so that a repeated request costs no parsing, no lookup and no metadata map.
type shape struct {
	requested
	subtype   string
	timeout   []string // grpc-timeout, if it was among the shared fields
	fields    []h2.Field
	authority string
	md        metadata.MD // of the shared fields; shared by calls, never changed
	response  responseBlock
	refuse    *refusal // not nil: the answer to the request
}

// responseBlock has a response's header fields without metadata, and their length as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
type responseBlock struct {
	*h2.Block
	size int
}

func newResponseBlock(fields []h2.Field) responseBlock {
	return responseBlock{h2.NewBlock(fields...), fieldsSize(fields)}
}

// refusal is the answer to a request that is not a gRPC call, or not one for this server.
type refusal struct {
	httpStatus string
	st         *status.Status
	fields     []h2.Field
	body       string
	tapped     bool // the tap is asked before
	// unregistered: of a method that no service has, which is reported to statistics handlers
	unregistered bool
}

const (
	httpOK               = "200"
	httpBadRequest       = "400"
	httpMethodNotAllowed = "405"
	httpUnsupportedMedia = "415"
)

func (s *Server) newShape(h *h2.Header) *shape {
	sh := &shape{requested: requested{path: h.Path}, fields: h.Fields, authority: h.Authority}
	ct, _ := h.Get("content-type")
	subtype, ok := header.Subtype(ct)
	switch {
	case !ok:
		sh.refuse = &refusal{httpStatus: httpUnsupportedMedia,
			st:   status.Newf(codes.Internal, "invalid gRPC request content-type %q", ct),
			body: "this is a gRPC server; content-type must be application/grpc\n"}
		return sh
	case h.Method != "POST":
		sh.refuse = &refusal{httpStatus: httpMethodNotAllowed,
			st:   status.Newf(codes.Internal, "received a %s request: gRPC uses POST", h.Method),
			body: "gRPC uses POST\n"}
		return sh
	}
	sh.subtype = subtype
	sh.encoding, _ = h.Get("grpc-encoding")
	if identity(sh.encoding) {
		sh.encoding = ""
	}
	for i := range h.Fields {
		if h.Fields[i].Name == "grpc-timeout" {
			sh.timeout = append(sh.timeout, h.Fields[i].Value)
		}
	}
	if sh.md, sh.refuse = sh.checkedMetadata(nil); sh.refuse != nil {
		return sh
	}
	if st, ok := sh.find(s); st != nil {
		sh.refuse = &refusal{httpStatus: httpOK, st: st, tapped: true, unregistered: ok}
		return sh
	}
	sh.choose(s)
	return sh
}

// checkedMetadata is metadata with the error converted to its refusal.
func (sh *shape) checkedMetadata(extra []h2.Field) (metadata.MD, *refusal) {
	md, err := sh.metadata(extra)
	if err != nil {
		return nil, &refusal{httpStatus: httpBadRequest, st: status.New(codes.Internal, err.Error())}
	}
	return md, nil
}

// find looks the method up. If there is none it returns the status, and whether the path is of the form of a method's.
func (q *requested) find(s *Server) (st *status.Status, ok bool) {
	if q.method = s.methods[q.path]; q.method != nil || s.opts.unknown != nil && strings.HasPrefix(q.path, "/") {
		return nil, true
	}
	service, name, ok := header.SplitMethod(q.path)
	switch {
	case !ok:
		st = status.Newf(codes.Unimplemented, "malformed method name: %q", q.path)
	case s.services[service] == nil:
		st = status.Newf(codes.Unimplemented, "unknown service %v", service)
	default:
		st = status.Newf(codes.Unimplemented, "unknown method %v for service %v", name, service)
	}
	return st, ok
}

// choose sets codec and compressor, and the response's fields that depend on them.
func (sh *shape) choose(s *Server) {
	sh.codec = s.opts.codec
	if sh.codec == nil {
		var ok bool
		if sh.codec, ok = message.OrJSON(sh.subtype); !ok {
			// As in grpc-go, an unknown subtype means protobuf.
			sh.codec = message.Default()
		}
	}
	fields := []h2.Field{{Name: ":status", Value: httpOK}, {Name: "content-type", Value: header.ContentType(sh.subtype)}}
	if sh.encoding != "" {
		if sh.compressor = encoding.GetCompressor(sh.encoding); sh.compressor == nil {
			sh.refuse = &refusal{httpStatus: httpOK, tapped: true,
				st:     status.Newf(codes.Unimplemented, "Decompressor is not installed for grpc-encoding %q", sh.encoding),
				fields: []h2.Field{{Name: "grpc-accept-encoding", Value: s.accepts}}}
			return
		}
		fields = append(fields, h2.Field{Name: "grpc-encoding", Value: sh.encoding})
	}
	sh.response = newResponseBlock(fields)
}

// names reports whether f is the host of a request without :authority, which it replaces (gRFC A41). Beside
// :authority it is ignored. h2 refuses requests with more than one.
func (sh *shape) names(f *h2.Field) bool { return sh.authority == "" && f.Name == "host" }

// metadata builds the map for the handler: the shared fields and the call's own. The error names a key of the
// peer's whose value is not base64.
func (sh *shape) metadata(extra []h2.Field) (metadata.MD, error) {
	md := make(metadata.MD, len(sh.fields)+len(extra)+1)
	if sh.authority != "" {
		md[":authority"] = []string{sh.authority}
	}
	for _, fs := range [...][]h2.Field{sh.fields, extra} {
		for i := range fs {
			if sh.names(&fs[i]) {
				md[":authority"] = []string{fs[i].Value}
				continue
			}
			if err := addMetadata(md, fs[i].Name, fs[i].Value); err != nil {
				return nil, err
			}
		}
	}
	return md, nil
}

func addMetadata(md metadata.MD, key, value string) error {
	if !header.ReceivedAsMetadata(key) {
		return nil
	}
	return addValues(md, key, value)
}

// addValues adds the values of a field that is passed to the program.
func addValues(md metadata.MD, key, value string) error {
	vs, err := header.AppendValues(md[key], key, value)
	if err != nil {
		return err
	}
	md[key] = vs
	return nil
}

// callFields splits the fields that differ from call to call: the timeout is parsed, the others are kept for
// the metadata.
func (sh *shape) callFields(extra []h2.Field) (keep []h2.Field, timeout time.Duration, has bool, err error) {
	text, n := "", 0
	if len(sh.timeout) > 0 {
		text, has = sh.timeout[len(sh.timeout)-1], true
	}
	for i := range extra {
		if extra[i].Name == "grpc-timeout" {
			text, has = extra[i].Value, true
		} else if header.ReceivedAsMetadata(extra[i].Name) || sh.names(&extra[i]) {
			n++
		}
	}
	if n > 0 {
		keep = make([]h2.Field, 0, n)
		for i := range extra {
			if header.ReceivedAsMetadata(extra[i].Name) || sh.names(&extra[i]) {
				keep = append(keep, extra[i])
			}
		}
	}
	if has {
		timeout, err = header.ParseTimeout(text)
	}
	return keep, timeout, has, err
}
