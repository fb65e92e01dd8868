package h2http

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/fields"
)

// shape is what a request is made of that many requests share: package h2 remembers
// header lists that come again, and keeps with each what was derived from it. A shape
// does not change once it is complete.
type shape struct {
	method, uri string
	url         url.URL
	headerGroups
	traits
}

// traits is what a request's fields say about it beyond its Header.
type traits struct {
	host     string
	length   int64 // content-length; -1: none
	expects  bool  // Expect: 100-continue
	trailers []string
	priority string // RFC 9218; "": none
	proxied  bool   // an intermediary has passed it on
	bad      string // why the request is malformed; "": it is not
}

// shapeOf returns the shape of h without h.Extra.
func shapeOf(h *h2.Header) *shape {
	if h.Memo != nil {
		if s, ok := (*h.Memo).(*shape); ok {
			return s
		}
	}
	s := newShape(h)
	if h.Memo != nil {
		*h.Memo = s
	}
	return s
}

func newShape(h *h2.Header) *shape {
	s := &shape{method: h.Method, traits: traits{host: h.Authority, length: -1}, headerGroups: newHeaderGroups(names(h.Fields))}
	if h.Protocol != "" {
		s.add(":protocol", h.Protocol) // as net/http passes it on
	}
	for _, f := range h.Fields {
		if s.note(f) {
			s.add(canonicalName(f.Name), f.Value)
		}
	}
	s.joinCookies()
	s.target(h)
	return s
}

// target derives the URL (RFC 9113 sections 8.3.1 and 8.5).
func (s *shape) target(h *h2.Header) {
	if h.Method == http.MethodConnect && h.Protocol == "" {
		s.url, s.uri = url.URL{Host: h.Authority}, h.Authority
		return
	}
	switch {
	case h.Scheme != "http" && h.Scheme != "https":
		s.bad = ":scheme other than http and https"
		return
	case strings.IndexByte(h.Authority, '@') >= 0:
		s.bad = "userinfo in :authority"
		return
	}
	// Here ParseRequestURI would take a URL, whose host differs from :authority.
	if !strings.HasPrefix(h.Path, "/") && (h.Path != "*" || h.Method != http.MethodOptions) {
		s.bad = ":path that is not absolute"
		return
	}
	u, err := url.ParseRequestURI(h.Path)
	if err != nil {
		s.bad = ":path that is no request target"
		return
	}
	s.url, s.uri = *u, h.Path
}

// note records what f says about the request and reports whether f belongs in its
// Header, too.
func (t *traits) note(f h2.Field) bool {
	switch f.Name {
	case "host":
		if t.host == "" {
			t.host = f.Value
		} else if !strings.EqualFold(t.host, f.Value) {
			t.bad = "host and :authority differ"
		}
		return false
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || t.length >= 0 && t.length != int64(n) {
			t.bad = "content-length fields that differ, or no number"
			return false
		}
		again := t.length >= 0
		t.length = int64(n)
		return !again
	case "expect":
		if httpguts.HeaderValuesContainsToken([]string{f.Value}, "100-continue") {
			t.expects = true // no value stays: see header
		}
	case "priority":
		t.priority = f.Value
	case "via", "forwarded", "x-forwarded-for":
		t.proxied = true
	case "trailer":
		for key := range strings.SplitSeq(f.Value, ",") {
			key = http.CanonicalHeaderKey(strings.Trim(key, " \t"))
			switch key {
			case "", "Transfer-Encoding", "Trailer", "Content-Length": // cannot be trailers
			default:
				t.trailers = append(t.trailers, key)
			}
		}
		return false
	}
	return true
}

// joinCookies joins crumbs: RFC 9113 section 8.2.3. A client may send many, so that it is done once for all.
func (s *shape) joinCookies() {
	if have := s.group("Cookie"); have != nil && len(have.Values) > 1 {
		have.Values = joined(have.Values)
	}
}

// joined returns cookies as one value.
func joined(crumbs []string) []string { return []string{strings.Join(crumbs, "; ")} }

// header makes the request's Header out of s and extra, and returns what both say
// about the request. values is where values go as long as they fit; it is empty.
func (s *shape) header(extra []h2.Field, values []string) (http.Header, traits) {
	h, values := makeHeader(s.groups, names(extra), values)
	t := s.sharedTraits()
	cookies := false
	for _, f := range extra {
		if f.Name == "cookie" {
			cookies = true
		} else if t.note(f) {
			values = put(h, canonicalName(f.Name), f.Value, values)
		}
	}
	if t.expects {
		delete(h, "Expect") // all values, like net/http
	}
	if cookies {
		putCookies(h, extra, values)
	}
	return h, t
}

// list is header for a request that may not need one: it puts into l, which is empty, what header puts into its map. It fails if that does
// not fit.
func (s *shape) list(extra []h2.Field, l *fields.List) (t traits, ok bool) {
	l.Shared, t = s.groups, s.sharedTraits()
	for _, f := range extra {
		if t.note(f) && !l.Add(canonicalName(f.Name), f.Value) {
			return t, false
		}
	}
	return t, !t.expects
}

// sharedTraits are what s says about one of its requests, of which others follow.
func (s *shape) sharedTraits() traits {
	t := s.traits
	t.trailers = slices.Clip(t.trailers) // other requests have them, too
	return t
}

// trailer makes the request's Trailer: the declared keys, without values.
func (t *traits) trailer() http.Header {
	if len(t.trailers) == 0 {
		return nil
	}
	h := make(http.Header, len(t.trailers))
	for _, key := range t.trailers {
		h[key] = nil
	}
	return h
}
