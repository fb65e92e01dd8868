package h2http

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tarn-go/tarn/h2"
)

// responseShape is what a response is made of that many responses share; see shape.
type responseShape struct {
	status int
	text   string // "200 OK"
	headerGroups
	trailers []string
}

func responseShapeOf(h *h2.Header) *responseShape {
	if h.Memo != nil {
		if s, ok := (*h.Memo).(*responseShape); ok {
			return s
		}
	}
	s := &responseShape{status: h.Status, text: strconv.Itoa(h.Status) + " " + http.StatusText(h.Status), headerGroups: newHeaderGroups(names(h.Fields))}
	for _, f := range h.Fields {
		if f.Name == "trailer" {
			s.trailers = appendTrailers(s.trailers, f.Value)
			continue
		}
		s.add(canonicalName(f.Name), f.Value)
	}
	if h.Memo != nil {
		*h.Memo = s
	}
	return s
}

func appendTrailers(keys []string, v string) []string {
	for key := range strings.SplitSeq(v, ",") {
		if key = strings.Trim(key, " \t"); key != "" {
			keys = append(keys, http.CanonicalHeaderKey(key))
		}
	}
	return keys
}

// header makes a response's Header, and returns the keys of its trailers. values is
// where values go as long as they fit; it is empty.
func (s *responseShape) header(extra []h2.Field, values []string) (http.Header, []string) {
	h, values := makeHeader(s.groups, names(extra), values)
	trailers := slices.Clip(s.trailers) // other responses have them, too
	for _, f := range extra {
		if f.Name == "trailer" {
			trailers = appendTrailers(trailers, f.Value)
			continue
		}
		values = put(h, canonicalName(f.Name), f.Value, values)
	}
	return h, trailers
}

// respond makes the http.Response, whose header has come.
func (x *call) respond() *http.Response {
	r := &x.response
	header, trailers := x.got.header(x.extra, x.values[:0])
	*r = http.Response{
		Status:        x.got.text,
		StatusCode:    x.got.status,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		Header:        header,
		ContentLength: -1,
		TLS:           x.conn.tls,
		Request:       x.request,
		Body:          &x.body,
	}
	if len(trailers) > 0 {
		r.Trailer = make(http.Header, len(trailers))
		for _, key := range trailers {
			r.Trailer[key] = nil
		}
	}
	if v := header["Content-Length"]; len(v) == 1 {
		if n, err := strconv.ParseUint(v[0], 10, 63); err == nil {
			r.ContentLength = int64(n)
		}
	} else if len(v) == 0 && x.complete && !x.head {
		r.ContentLength = 0
	}
	switch {
	case x.head:
		x.body.unwanted() // a server may send content nevertheless
		r.Body = http.NoBody
	case x.complete && r.ContentLength > 0:
		r.Body = missingBody{}
	case x.complete:
		r.Body = http.NoBody
	case x.gzip && strings.EqualFold(header.Get("Content-Encoding"), "gzip"):
		header.Del("Content-Encoding")
		header.Del("Content-Length")
		r.ContentLength = -1
		r.Body = &gzipBody{body: &x.body}
		r.Uncompressed = true
	}
	return r
}

// missingBody is the body of a response that ended with its header although that
// declares content.
type missingBody struct{}

func (missingBody) Close() error             { return nil }
func (missingBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// gzipBody decompresses a body.
type gzipBody struct {
	body   *body
	zr     *gzip.Reader // made by the first Read
	err    error        // of the last Read
	closed atomic.Bool
}

// Read reads decompressed content.
func (g *gzipBody) Read(p []byte) (int, error) {
	if g.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if g.err != nil {
		return 0, g.err
	}
	if g.zr == nil {
		if g.zr, g.err = gzip.NewReader(g.body); g.err != nil {
			g.zr = nil
			return 0, g.err
		}
	}
	n, err := g.zr.Read(p)
	g.err = err
	return n, err
}

// Close closes the body, also while another goroutine reads.
func (g *gzipBody) Close() error {
	g.closed.Store(true)
	return g.body.Close()
}
