package h2http

import "net/http"

// headerGroups are the regular fields of a header list, by header.
type headerGroups struct {
	groups []headerValues
	values int      // in all groups
	room   []string // for the first value of a header, while there is some
}

// newHeaderGroups returns groups with room for so many fields.
func newHeaderGroups(fields int) headerGroups {
	return headerGroups{groups: make([]headerValues, 0, fields), room: make([]string, 0, fields)}
}

// headerValues are the values of one header.
type headerValues struct {
	key    string
	values []string
}

// group returns the values of a header; nil if there are none.
func (g *headerGroups) group(key string) *headerValues {
	for i := range g.groups {
		if g.groups[i].key == key {
			return &g.groups[i]
		}
	}
	return nil
}

func (g *headerGroups) add(key, value string) {
	g.values++
	if have := g.group(key); have != nil {
		have.values = append(have.values, value)
		return
	}
	g.room = append(g.room, value)
	n := len(g.room)
	g.groups = append(g.groups, headerValues{key, g.room[n-1 : n : n]})
}

// header makes a Header of g, with room for so many extra fields. values is where values go as long as they and the
// extra ones fit; it is empty. It returns what put takes as values for the extra ones.
func (g *headerGroups) header(extra int, values []string) (http.Header, []string) {
	h := make(http.Header, len(g.groups)+extra)
	if n := g.values + extra; n > cap(values) {
		values = make([]string, 0, n)
	}
	for i := range g.groups {
		have := &g.groups[i]
		start := len(values)
		values = append(values, have.values...)
		h[have.key] = values[start:len(values):len(values)]
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
