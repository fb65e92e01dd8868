package h1

import (
	"cmp"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/preset"
	"github.com/tarn-go/tarn/wire"
	"golang.org/x/net/http/httpguts"
)

// response is the ResponseWriter of a connection's requests, one after another.
type response struct {
	conn    *conn
	request *head
	body    tarn.Buffer // the request's, until the handler takes it

	presets []preset.Field
	header  http.Header // nil: Header has not been called
	status  int         // 0: WriteHeader has not been called
	head    []byte      // status line and fields, when it has
	length  int64       // of the content, as the handler has set it; -1: it has not
	written int64
	ending  ending
	begun   bool        // the head has been passed to conn.out
	dated   bool        // the handler has set the Date
	held    tarn.Buffer // content of which the length is not known yet, held.Bytes()[:written]

	limited atomic.Bool // there is a write deadline
}

var (
	_ http.ResponseWriter = (*response)(nil)
	_ preset.Writer       = (*response)(nil)
	_ fields.Source       = (*response)(nil)
)

// start begins the response to a request, of whose body it takes ownership.
func (r *response) start(h *head, body tarn.Buffer) {
	r.request, r.body = h, body
	r.status, r.length, r.written, r.ending, r.begun, r.dated = 0, -1, 0, h.ending, false, false
}

// Fields implements fields.Source.
func (r *response) Fields() *fields.List { return &r.request.fields }

// AppendBody moves the request's body to the end of c, and returns io.EOF: that is all of it.
func (r *response) AppendBody(c *tarn.Chain) error {
	if r.body.Len() > 0 {
		c.Append(r.body)
	}
	r.body = tarn.Buffer{}
	return io.EOF
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
		for _, f := range r.presets {
			r.header[f.Key] = f.Values
		}
		r.presets = r.presets[:0]
	}
	return r.header
}

// Preset implements preset.Writer.
func (r *response) Preset(f preset.Field) {
	if r.header != nil {
		r.header[f.Key] = f.Values
		return
	}
	for i := range r.presets {
		if r.presets[i].Key == f.Key {
			r.presets[i] = f
			return
		}
	}
	r.presets = append(r.presets, f)
}

// WriteHeader takes the status, and the header as it is now.
func (r *response) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	r.head = append(r.head, "HTTP/1.1 "...)
	r.head = strconv.AppendInt(r.head, int64(status), 10)
	r.head = append(append(append(r.head, ' '), statusText(status)...), crlf...)
	for _, f := range r.presets {
		r.take(f.Key, f.Values)
	}
	for name, values := range r.header {
		r.take(name, values)
	}
}

// statusText is net/http's text of a status.
func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(status)
}

// take adds a field to the head. Content-Length and Connection are added at the end, and a Date if the handler has set none.
func (r *response) take(name string, values []string) {
	switch name {
	case "Content-Length":
		if len(values) > 0 {
			if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
				r.length = n
			}
		}
		return
	case "Connection":
		if len(values) > 0 && values[0] == "close" {
			r.ending = closing
		}
		return
	case "Date":
		r.dated = true
	}
	for _, v := range values {
		r.head = appendField(r.head, name, v)
	}
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// appendField appends a field. As in net/http one with an invalid name is left out, and line breaks in values become blanks.
func appendField(b []byte, name, value string) []byte {
	if !httpguts.ValidHeaderFieldName(name) {
		return b
	}
	if strings.ContainsAny(value, crlf) {
		value = newlines.Replace(value)
	}
	b = append(append(b, name...), ": "...)
	return append(append(b, textproto.TrimString(value)...), crlf...)
}

// Write implements http.ResponseWriter. Content of which the handler has set the length is sent at once if it is long; otherwise it is held until the
// handler has returned.
func (r *response) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.length < 0 {
		r.hold(p)
		return len(p), nil
	}
	if r.written += int64(len(p)); r.written > r.length {
		return 0, http.ErrContentLength // as in net/http the connection ends after that
	}
	r.begin()
	if len(p) < wire.CopyBelow {
		return r.conn.out.Write(p)
	}
	r.conn.out.Borrow(p)
	if err := r.conn.out.Flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// minHeld is how many bytes of content are held at first.
const minHeld = 2 << 10

// hold copies content.
func (r *response) hold(p []byte) {
	need := int(r.written) + len(p)
	if need > r.held.Len() {
		more := r.conn.srv.Pool.Get(max(minHeld, 2*need))
		copy(more.Bytes(), r.held.Bytes()[:r.written])
		r.held.Free()
		r.held = more
	}
	copy(r.held.Bytes()[r.written:], p)
	r.written += int64(len(p))
}

// begin passes the head on, once. The length is known.
func (r *response) begin() {
	if r.begun {
		return
	}
	r.begun = true
	if r.conn.state.Load() == leaving {
		r.ending = closing
	}
	if !r.dated {
		r.head = append(append(append(r.head, "Date: "...), r.conn.srv.date()...), crlf...)
	}
	r.head = strconv.AppendInt(append(r.head, "Content-Length: "...), r.length, 10)
	if r.ending == closing {
		r.head = append(r.head, "\r\nConnection: close"...)
	}
	r.head = append(r.head, "\r\n\r\n"...)
	r.conn.out.Write(r.head)
}

// finish sends what is left of the response when the handler has returned. It reports whether another may follow.
func (r *response) finish() bool {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.length < 0 {
		r.length = r.written
	}
	r.begin()
	if r.held.Len() > 0 {
		r.conn.out.Append(r.held.Narrow(0, int(r.written)))
		r.held = tarn.Buffer{}
	}
	err := r.conn.out.Flush()
	r.clear()
	if r.limited.Swap(false) {
		err = cmp.Or(err, r.conn.nc.SetWriteDeadline(time.Time{}))
	}
	// Content that is shorter than the handler has declared can only be ended with the connection.
	return err == nil && r.written == r.length && r.ending == keepAlive
}

// maxKept is up to which length in bytes the memory of a head is kept for the next response.
const maxKept = 1 << 10

// clear frees what the response holds and a next one does not need, also if the handler has not returned.
func (r *response) clear() {
	r.body.Free()
	r.held.Free()
	r.body, r.held = tarn.Buffer{}, tarn.Buffer{}
	clear(r.presets)
	r.presets, r.header = r.presets[:0], nil
	if r.head = r.head[:0]; cap(r.head) > maxKept {
		r.head = nil
	}
}

// SetReadDeadline does nothing: the request's body has been received. See http.ResponseController.
func (r *response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline bounds the sending of this response. See http.ResponseController.
func (r *response) SetWriteDeadline(at time.Time) error {
	r.limited.Store(true)
	return r.conn.nc.SetWriteDeadline(at)
}
