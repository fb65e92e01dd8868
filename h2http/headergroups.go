package h2http

import (
	"net/http"

	"github.com/tarn-go/tarn/internal/fields"
)

// headerGroups are the regular fields of a header list, by header.
type headerGroups struct {
	groups []fields.Values
	room   []string // for the first value of a header, while there is some
}

// newHeaderGroups returns groups with room for so many fields.
func newHeaderGroups(n int) headerGroups {
	return headerGroups{groups: make([]fields.Values, 0, n), room: make([]string, 0, n)}
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
	g.room = append(g.room, value)
	n := len(g.room)
	g.groups = append(g.groups, fields.Values{Key: key, Values: g.room[n-1 : n : n]})
}

// makeHeader makes a Header of groups, with room for so many extra fields. values is where values go as long as they and the
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
		start := len(values)
		values = append(values, have.Values...)
		h[have.Key] = values[start:len(values):len(values)]
	}
	return h, values
}

// put adds a value to h. The first value of a header goes behind values, which put returns with it.
func put(h http.Header, key, value string, values []string) []string {
	if have, ok := h[key]; ok {
		h[key] = append(have, value)
		return values
	}
	start := len(values)
	values = append(values, value)
	h[key] = values[start:len(values):len(values)]
	return values
}
