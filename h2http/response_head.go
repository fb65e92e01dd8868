package h2http

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn/h2"
)

// responseHead is a response's status and header as they were when WriteHeader was
// called. Its fields are gathered in the worker's scratch space.
type responseHead struct {
	status      int
	length      int64 // content-length that the handler has set; -1: none
	lengthText  string
	noLength    bool   // the handler wants no content-length: it has set it to nothing
	contentType string // detected from the content
	needsType   bool
	needsDate   bool
	trailers    []string // declared, in canonical form
}

var (
	statusBlocks = makeStatusBlocks()

	continueBlock = statusBlocks[http.StatusContinue]
)

// makeStatusBlocks makes Blocks of the statuses that are sent often.
func makeStatusBlocks() map[int]*h2.Block {
	blocks := make(map[int]*h2.Block)
	for _, status := range []int{100, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 429, 500, 502, 503} {
		blocks[status] = h2.NewBlock(statusField(status))
	}
	return blocks
}

func statusField(status int) h2.Field {
	return h2.Field{Name: ":status", Value: strconv.Itoa(status)}
}

// fill copies the status and the header of w.
func (d *responseHead) fill(w *responseWriter, status int) {
	d.status, d.length = status, -1
	fields := w.scratch.fields[:0]
	h := w.header
	if len(h) == 0 {
		d.needsType, d.needsDate = bodyAllowed(status), true
		w.scratch.fields = fields
		return
	}
	if v, set := h["Content-Length"]; set {
		if d.noLength = len(v) == 0 || v[0] == ""; !d.noLength {
			if n, err := strconv.ParseUint(v[0], 10, 63); err == nil {
				d.length, d.lengthText = int64(n), v[0]
			}
		}
	}
	_, typed := h["Content-Type"]
	_, dated := h["Date"]
	d.needsType = bodyAllowed(status) && !typed && h.Get("Content-Encoding") == ""
	d.needsDate = !dated
	for _, v := range h["Trailer"] {
		for key := range strings.SplitSeq(v, ",") {
			d.declare(w, strings.Trim(key, " \t"))
		}
	}
	if p := h["Priority"]; len(p) > 0 { // the server's value takes precedence: RFC 9218 section 8
		w.x.stream.SetPriority(h2.ParsePriority(strings.Join(p, ",")))
	}
	if h.Get("Connection") == "close" {
		w.x.conn.h2.Shutdown("")
	}
	w.scratch.fields = appendHeader(fields, h)
}

// declare notes a trailer.
func (d *responseHead) declare(w *responseWriter, key string) {
	if key == "" {
		return
	}
	key = http.CanonicalHeaderKey(key)
	if !httpguts.ValidTrailerHeader(key) {
		w.x.conn.engine.logf("h2http: ignoring invalid trailer %q", key)
		return
	}
	if !slices.Contains(d.trailers, key) {
		d.trailers = append(d.trailers, key)
	}
}

// put adds the header to o, whose content is n bytes long.
func (d *responseHead) put(w *responseWriter, o *h2.Out, n int) {
	fields := w.scratch.fields
	if d.contentType != "" {
		fields = append(fields, h2.Field{Name: "content-type", Value: d.contentType})
	}
	if d.lengthText == "" && !d.noLength && o.Ending == h2.End && bodyAllowed(d.status) && (n > 0 || w.x.request.Method != http.MethodHead) {
		d.lengthText = w.scratch.length.text(n)
	}
	if d.lengthText != "" {
		fields = append(fields, h2.Field{Name: "content-length", Value: d.lengthText})
	}
	if d.needsDate {
		fields = append(fields, h2.Field{Name: "date", Value: w.x.conn.engine.date()})
	}
	if o.Block = statusBlocks[d.status]; o.Block == nil {
		fields = slices.Insert(fields, 0, statusField(d.status))
	}
	w.scratch.fields = fields
	o.Fields = fields
}

// putTrailers adds the trailers that the handler has set to o.
func (w *responseWriter) putTrailers(o *h2.Out) {
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			w.head.declare(w, name)
			w.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	slices.Sort(w.head.trailers)
	for _, key := range w.head.trailers {
		name, ok := lowerName(key)
		if !ok {
			continue
		}
		for _, v := range w.header[key] {
			if httpguts.ValidHeaderFieldValue(v) {
				o.Trailers = append(o.Trailers, h2.Field{Name: name, Value: textproto.TrimString(v)})
			}
		}
	}
}

// appendHeader appends the fields of h, sorted by name, but for Content-Length and
// what belongs to a connection. Blanks around a value are not sent: with them the message would be malformed (RFC 9113 section 8.2.1).
func appendHeader(fields []h2.Field, h http.Header) []h2.Field {
	start := len(fields)
	for key, values := range h {
		if key == "Content-Length" {
			continue
		}
		name, ok := lowerName(key)
		if !ok || connectionField(name) {
			continue
		}
		for _, v := range values {
			if httpguts.ValidHeaderFieldValue(v) {
				fields = append(fields, h2.Field{Name: name, Value: textproto.TrimString(v)})
			}
		}
	}
	slices.SortStableFunc(fields[start:], func(a, b h2.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}
