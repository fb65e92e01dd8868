package h2http

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn/h2"
)

// defaultUserAgent is net/http's for HTTP/2.
const defaultUserAgent = "Go-http-client/2.0"

// prepare checks the request and prepares the firstOut: its header, with a short body if
// there is one.
func (x *call) prepare(out *firstOut) error {
	r := x.request
	if err := x.check(); err != nil {
		return err
	}
	fields, err := x.fields(out.fields[:0])
	if err != nil {
		return err
	}
	if err := x.fits(fields); err != nil {
		return err
	}
	if out.Block = x.conn.pool.blocks.find(fields); out.Block == nil {
		out.Fields = fields
	}
	length := contentLength(r)
	if length != 0 {
		if length > 0 {
			out.Fields = append(out.Fields, h2.Field{Name: "content-length", Value: strconv.FormatInt(length, 10)})
		}
		buf, ok, err := x.inline(length)
		if err != nil {
			return err
		}
		if ok {
			out.Data, out.Ending, out.LeaveData = buf, h2.End, true
			return nil
		}
		if x.expects() {
			x.continued = make(chan struct{}, 1)
		}
		return nil
	}
	switch r.Method {
	case "POST", "PUT", "PATCH":
		out.Fields = append(out.Fields, h2.Field{Name: "content-length", Value: "0"})
	}
	if len(r.Trailer) == 0 {
		out.Ending = h2.End
	}
	return nil
}

// fits says whether the server takes a header list, or trailers, of this length (RFC 9113 section 6.5.2); like net/http,
// without content-length, and before the server's SETTINGS have come any does.
func (x *call) fits(fields []h2.Field) error {
	limit := x.conn.h2.PeerHeaderList()
	if limit == 0 {
		return nil
	}
	size := 0
	for i := range fields {
		size += len(fields[i].Name) + len(fields[i].Value) + 32
	}
	if size > limit {
		return fmt.Errorf("h2http: the request's header list has %d bytes, and the server takes %d", size, limit)
	}
	return nil
}

// check says what is wrong with the request.
func (x *call) check() error {
	r := x.request
	h := r.Header
	if v := h["Upgrade"]; len(v) > 0 && v[0] != "" && v[0] != "chunked" {
		return fmt.Errorf("h2http: invalid Upgrade request header: %q", v)
	}
	if v := h["Transfer-Encoding"]; len(v) > 0 && (len(v) > 1 || v[0] != "" && v[0] != "chunked") {
		return fmt.Errorf("h2http: invalid Transfer-Encoding request header: %q", v)
	}
	if v := h["Connection"]; len(v) > 0 && (len(v) > 1 || v[0] != "" && !strings.EqualFold(v[0], "close") && !strings.EqualFold(v[0], "keep-alive")) {
		return fmt.Errorf("h2http: invalid Connection request header: %q", v)
	}
	if r.Method != "" && !validMethod(r.Method) {
		return fmt.Errorf("h2http: invalid method %q", r.Method)
	}
	for _, m := range []http.Header{h, r.Trailer} {
		for key, values := range m {
			if key != ":protocol" && !httpguts.ValidHeaderFieldName(key) {
				return fmt.Errorf("h2http: invalid header field name %q", key)
			}
			for _, v := range values {
				if !httpguts.ValidHeaderFieldValue(v) {
					return fmt.Errorf("h2http: invalid header field value for %q", key) // the value may be a secret
				}
			}
		}
	}
	for key := range r.Trailer {
		switch http.CanonicalHeaderKey(key) {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return fmt.Errorf("h2http: invalid Trailer key %q", key)
		}
	}
	return nil
}

// validMethod reports whether a method is a token (RFC 9110 section 9.1).
func validMethod(m string) bool {
	for i := 0; i < len(m); i++ {
		if !httpguts.IsTokenRune(rune(m[i])) {
			return false
		}
	}
	return true
}

// fields appends the request's header list but for content-length.
func (x *call) fields(fields []h2.Field) ([]h2.Field, error) {
	r := x.request
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	if last := x.conn.group.host.Load(); last == nil || *last != host {
		ascii, err := httpguts.PunycodeHostPort(host)
		if err != nil {
			return nil, err
		}
		if ascii == "" || !httpguts.ValidHostHeader(ascii) {
			return nil, errors.New("h2http: the request's host is missing or invalid")
		}
		if ascii == host {
			valid := host
			x.conn.group.host.Store(&valid)
		}
		host = ascii
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	protocol := ""
	if v := r.Header[":protocol"]; len(v) > 0 {
		protocol = v[0]
	}
	fields = append(fields, h2.Field{Name: ":authority", Value: host}, h2.Field{Name: ":method", Value: method})
	switch {
	case protocol != "" && method != http.MethodConnect:
		return nil, errors.New("h2http: :protocol in a request that is not CONNECT")
	case protocol != "":
		if err := x.awaitExtendedConnect(); err != nil {
			return nil, err
		}
		fields = append(fields, h2.Field{Name: ":protocol", Value: protocol})
	}
	if method != http.MethodConnect || protocol != "" {
		path := r.URL.RequestURI()
		if !validPath(path) {
			whole := path
			if path = strings.TrimPrefix(path, r.URL.Scheme+"://"+host); !validPath(path) {
				if r.URL.Opaque != "" {
					return nil, fmt.Errorf("h2http: invalid request path %q from URL.Opaque = %q", whole, r.URL.Opaque)
				}
				return nil, fmt.Errorf("h2http: invalid request path %q", whole)
			}
		}
		fields = append(fields, h2.Field{Name: ":path", Value: path}, h2.Field{Name: ":scheme", Value: r.URL.Scheme})
	}
	return x.regular(fields), nil
}

func validPath(p string) bool { return p != "" && p[0] == '/' || p == "*" }

// regular appends the fields that are no pseudo-fields, sorted by name. Blanks around a value are not sent: with them
// the request would be malformed (RFC 9113 section 8.2.1).
func (x *call) regular(fields []h2.Field) []h2.Field {
	r := x.request
	from := len(fields)
	agent := defaultUserAgent
	for key, values := range r.Header {
		name, ok := lowerName(key)
		if !ok || connectionField(name) {
			continue
		}
		switch name {
		case "host", "content-length":
			continue
		case "user-agent":
			if agent = ""; len(values) > 0 {
				agent = textproto.TrimString(values[0])
			}
			continue
		case "cookie":
			fields = appendCookies(fields, values)
			continue
		}
		for _, v := range values {
			fields = append(fields, h2.Field{Name: name, Value: textproto.TrimString(v)})
		}
	}
	if agent != "" {
		fields = append(fields, h2.Field{Name: "user-agent", Value: agent})
	}
	if x.gzip = x.asksGzip(); x.gzip {
		fields = append(fields, h2.Field{Name: "accept-encoding", Value: "gzip"})
	}
	if len(r.Trailer) > 0 {
		keys := make([]string, 0, len(r.Trailer))
		for key := range r.Trailer {
			keys = append(keys, http.CanonicalHeaderKey(key))
		}
		slices.Sort(keys)
		fields = append(fields, h2.Field{Name: "trailer", Value: strings.Join(keys, ",")})
	}
	slices.SortStableFunc(fields[from:], func(a, b h2.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// appendCookies splits cookies into crumbs (RFC 9113 section 8.2.3).
func appendCookies(fields []h2.Field, values []string) []h2.Field {
	for _, v := range values {
		for crumb := range strings.SplitSeq(v, ";") {
			if crumb = textproto.TrimString(crumb); crumb != "" {
				fields = append(fields, h2.Field{Name: "cookie", Value: crumb})
			}
		}
	}
	return fields
}

// asksGzip reports whether this package asks for gzip on its own, as net/http does.
func (x *call) asksGzip() bool {
	h := x.request.Header
	return !x.conn.pool.plainResponses && len(h["Accept-Encoding"]) == 0 && len(h["Range"]) == 0 && !x.head
}

// awaitExtendedConnect waits for the server's SETTINGS, which say whether it takes
// extended CONNECT.
func (x *call) awaitExtendedConnect() error {
	select {
	case <-x.conn.ready:
	case <-x.request.Context().Done():
		return x.request.Context().Err()
	}
	if !x.conn.h2.PeerExtendedConnect() {
		return errors.New("h2http: the server does not permit extended CONNECT")
	}
	return nil
}
