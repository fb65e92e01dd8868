package h2http

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/preset"
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
	dated       time.Time // the present when the header was sent with a Date of this package
	trailers    []string  // declared, in canonical form
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

// fill copies the status and the header of r.
func (d *responseHead) fill(w *responseWriter, r *response, status int) {
	d.status, d.length = status, -1
	d.needsType, d.needsDate = bodyAllowed(status), true
	fields := r.fields[:0]
	for _, f := range r.preset {
		fields = d.take(w, fields, f.Key, f.Values)
	}
	for key, values := range r.header {
		fields = d.take(w, fields, key, values)
	}
	sortFields(fields)
	r.fields = fields
}

// take notes what values mean for the response, and appends the fields that are sent for them.
func (d *responseHead) take(w *responseWriter, fields []h2.Field, key string, values []string) []h2.Field {
	first := ""
	if len(values) > 0 {
		first = values[0]
	}
	switch key {
	case "Content-Length":
		if d.noLength = first == ""; !d.noLength {
			if n, err := strconv.ParseUint(first, 10, 63); err == nil {
				d.length, d.lengthText = int64(n), first
			}
		}
	case "Content-Type":
		d.needsType = false
	case "Content-Encoding":
		if first != "" {
			d.needsType = false
		}
	case "Date":
		d.needsDate = false
	case "Trailer":
		for _, v := range values {
			for key := range strings.SplitSeq(v, ",") {
				d.declare(w, strings.Trim(key, " \t"))
			}
		}
	case "Priority":
		if len(values) > 0 { // the server's value takes precedence: RFC 9218 section 8
			w.x.stream.SetPriority(h2.ParsePriority(strings.Join(values, ",")))
		}
	case "Connection":
		if first == "close" {
			w.x.conn.h2.Shutdown("")
		}
	}
	return appendKey(fields, key, values)
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
func (d *responseHead) put(w *responseWriter, r *response, o *h2.Out, n int) {
	fields := r.fields
	if d.contentType != "" {
		fields = append(fields, h2.Field{Name: "content-type", Value: d.contentType})
	}
	if d.lengthText == "" && !d.noLength && o.Ending == h2.End && bodyAllowed(d.status) && (n > 0 || w.x.request.Method != http.MethodHead) {
		d.lengthText = r.length.text(n)
	}
	if d.lengthText != "" {
		fields = append(fields, h2.Field{Name: "content-length", Value: d.lengthText})
	}
	if d.needsDate {
		d.dated = time.Now()
		fields = append(fields, h2.Field{Name: "date", Value: w.x.conn.engine.date(d.dated)})
	}
	if o.Block = statusBlocks[d.status]; o.Block == nil {
		fields = slices.Insert(fields, 0, statusField(d.status))
	}
	r.fields = fields
	o.Fields = fields
}

// putTrailers adds the trailers that the handler has set to o.
func (r *response) putTrailers(w *responseWriter, o *h2.Out) {
	for _, f := range r.preset { // what promote appends has no prefix
		r.promote(w, f.Key, f.Values)
	}
	for key, values := range r.header {
		r.promote(w, key, values)
	}
	slices.Sort(r.head.trailers)
	fields := r.trailers[:0]
	for _, key := range r.head.trailers {
		if name, ok := lowerName(key); ok {
			fields = appendValues(fields, name, r.values(key))
		}
	}
	r.trailers, o.Trailers = fields, fields
}

// promote makes a trailer of a field whose name has http.TrailerPrefix.
func (r *response) promote(w *responseWriter, key string, values []string) {
	if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
		r.head.declare(w, name)
		r.set(preset.Field{Key: http.CanonicalHeaderKey(name), Values: values})
	}
}

// appendHeader appends the fields of h, sorted by name, but for Content-Length and
// what belongs to a connection.
func appendHeader(fields []h2.Field, h http.Header) []h2.Field {
	from := len(fields)
	for key, values := range h {
		fields = appendKey(fields, key, values)
	}
	sortFields(fields[from:])
	return fields
}

// appendKey appends what appendHeader does for one key.
func appendKey(fields []h2.Field, key string, values []string) []h2.Field {
	if key == "Content-Length" {
		return fields
	}
	name, ok := lowerName(key)
	if !ok || connectionField(name) {
		return fields
	}
	return appendValues(fields, name, values)
}

// appendValues appends a field for each value that is valid. Blanks around it are not sent: with them the message would be malformed
// (RFC 9113 section 8.2.1).
func appendValues(fields []h2.Field, name string, values []string) []h2.Field {
	for _, v := range values {
		if httpguts.ValidHeaderFieldValue(v) {
			fields = append(fields, h2.Field{Name: name, Value: textproto.TrimString(v)})
		}
	}
	return fields
}

func sortFields(fields []h2.Field) {
	if len(fields) > 1 {
		slices.SortStableFunc(fields, func(a, b h2.Field) int { return strings.Compare(a.Name, b.Name) })
	}
}
