// Package fields gives a handler the fields of a request without the map of its Header, if the server and the handler can do without:
// the map is a seventh of the bytes that a short call allocates, and is looked into a few times.
//
// A request has its fields in one place: a server makes no Header only for a handler that it calls itself and that has marked itself as a
// Reader, so that a handler in between sees an ordinary http.Request.
package fields

import "net/http"

// Values are the values of one field, whose name Key is in canonical form. They are not changed by anyone.
type Values struct {
	Key    string
	Values []string
}

// maxOwn is how many fields of its own a List has at most.
const maxOwn = 4

// List are the fields of one request, with names in canonical form.
type List struct {
	// Shared are fields that other requests have, too.
	Shared []Values
	// Own has the others, each a name and its only value.
	Own [2 * maxOwn]string
	// Len is how many strings of Own are in use.
	Len int
}

// Add adds a field. It fails if there is no room, or if there is a field of that name.
func (l *List) Add(key, value string) bool {
	if l.Len == len(l.Own) || l.Get(key) != nil {
		return false
	}
	l.Own[l.Len], l.Own[l.Len+1] = key, value
	l.Len += 2
	return true
}

// Get returns the values of a field; nil: there are none. They must not be changed.
func (l *List) Get(key string) []string {
	for i := range l.Shared {
		if l.Shared[i].Key == key {
			return l.Shared[i].Values
		}
	}
	for i := 0; i < l.Len; i += 2 {
		if l.Own[i] == key {
			return l.Own[i+1 : i+2 : i+2]
		}
	}
	return nil
}

// All yields each field and its values, which must not be changed.
func (l *List) All(yield func(key string, values []string) bool) {
	for i := range l.Shared {
		if !yield(l.Shared[i].Key, l.Shared[i].Values) {
			return
		}
	}
	for i := 0; i < l.Len; i += 2 {
		if !yield(l.Own[i], l.Own[i+1:i+2:i+2]) {
			return
		}
	}
}

// Source is a ResponseWriter of a server that may have made no Header.
type Source interface {
	// Fields returns the request's fields; nil: they are in its Header.
	Fields() *List
}

// Of returns the fields of the request that w answers; nil: they are in its Header.
func Of(w http.ResponseWriter) *List {
	if s, ok := w.(Source); ok {
		return s.Fields()
	}
	return nil
}

// Reader marks the handler that embeds it as one that looks for its request's fields in Of, too. The handler embeds it under a name that
// is not exported, so that it has no further exported method.
type Reader struct{ handler http.Handler }

// ReaderOf returns the Reader that h embeds.
func ReaderOf(h http.Handler) Reader { return Reader{h} }

func (r Reader) reader() http.Handler { return r.handler }

// Suffice reports whether h is a marked handler. One that embeds a marked handler is not: it may look into the Header.
func Suffice(h http.Handler) bool {
	m, ok := h.(interface{ reader() http.Handler })
	return ok && m.reader() == h
}
