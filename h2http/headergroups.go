package h2http

import (
	"net/http"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/fields"
)

// headerGroups are the regular fields of a header list, by header.
type headerGroups struct {
	groups []fields.Values
	firsts []string // the first value of each header
}

// mostPresized is for how many headers room is made at once, at most.
const mostPresized = 32

// names is for how many headers fs make room. A list may have many fields of one name, such as crumbs of a cookie, each of one byte
// on the wire: room for as many headers would cost a hundred bytes for each.
func names(fs []h2.Field) (n int) {
	for i := range fs {
		if i == 0 || fs[i].Name != fs[i-1].Name {
			n++
		}
	}
	return min(n, mostPresized)
}

// newHeaderGroups returns groups with room for so many headers.
func newHeaderGroups(n int) headerGroups {
	return headerGroups{groups: make([]fields.Values, 0, n), firsts: make([]string, 0, n)}
}

// group returns the values of a header; nil if there are none.
func (g *headerGroups) group(key string) *fields.Values {
	for i := range g.groups {
		if g.groups[i].Key == key {
			return &g.groups[i]
		}
	}
	return nil
}

func (g *headerGroups) add(key, value string) {
	if have := g.group(key); have != nil {
		have.Values = append(have.Values, value)
		return
	}
	g.firsts = append(g.firsts, value)
	n := len(g.firsts)
	g.groups = append(g.groups, fields.Values{Key: key, Values: g.firsts[n-1 : n : n]})
}

// makeHeader makes a Header of groups, with room for so many extra headers. values is where values go as long as they and the
// extra ones fit; it is empty. It returns what put takes as values for the extra ones.
func makeHeader(groups []fields.Values, extra int, values []string) (http.Header, []string) {
	h := make(http.Header, len(groups)+extra)
	n := extra
	for i := range groups {
		n += len(groups[i].Values)
	}
	if n > cap(values) {
		values = make([]string, 0, n)
	}
	for i := range groups {
		have := &groups[i]
		from := len(values)
		values = append(values, have.Values...)
		h[have.Key] = values[from:len(values):len(values)]
	}
	return h, values
}

// put adds a value to h. The first value of a header goes behind values, which put returns with it.
func put(h http.Header, key, value string, values []string) []string {
	if have, ok := h[key]; ok {
		h[key] = append(have, value)
		return values
	}
	if len(values) == cap(values) {
		values = make([]string, 0, 8) // and not a copy of those that h has
	}
	from := len(values)
	values = append(values, value)
	h[key] = values[from:len(values):len(values)]
	return values
}

// putCookies makes the cookies of h and those among extra one value: RFC 9113 section 8.2.3.
func putCookies(h http.Header, extra []h2.Field, values []string) []string {
	have := h["Cookie"]
	n, size := len(have), 0
	for _, v := range have {
		size += len(v) + len("; ")
	}
	only := ""
	for i := range extra {
		if extra[i].Name == "cookie" {
			n++
			only = extra[i].Value
			size += len(only) + len("; ")
		}
	}
	if n == 1 {
		return put(h, "Cookie", only, values)
	}
	var all strings.Builder
	all.Grow(size)
	for _, v := range have {
		all.WriteString(v)
		all.WriteString("; ")
	}
	for i := range extra {
		if extra[i].Name == "cookie" {
			all.WriteString(extra[i].Value)
			all.WriteString("; ")
		}
	}
	h["Cookie"] = []string{strings.TrimSuffix(all.String(), "; ")}
	return values
}
