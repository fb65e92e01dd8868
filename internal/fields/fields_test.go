package fields

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

func TestList(t *testing.T) {
	l := List{Shared: []Values{{"A", []string{"1", "2"}}, {"B", []string{"3"}}}}
	if l.Add("B", "4") {
		t.Error("a field of Shared was added again")
	}
	for _, key := range []string{"C", "D", "E", "F"} {
		if !l.Add(key, "of "+key) || l.Add(key, "again") {
			t.Fatalf("%s was not added once", key)
		}
	}
	if l.Add("G", "") {
		t.Error("more fields than there is room for")
	}
	got := maps.Collect(l.All)
	for key, want := range map[string][]string{"A": {"1", "2"}, "B": {"3"}, "C": {"of C"}, "F": {"of F"}, "G": nil} {
		if !slices.Equal(got[key], want) || !slices.Equal(l.Get(key), want) {
			t.Errorf("%s: %q and %q, want %q", key, got[key], l.Get(key), want)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d fields", len(got))
	}
	if v := l.Get("C"); cap(v) != 1 {
		t.Error("appending to a field's values would change another's")
	}
}

type marked struct{ Reader }

func (*marked) ServeHTTP(http.ResponseWriter, *http.Request) {}

// around embeds a marked handler, and has a method of its own that may look into the Header.
type around struct{ *marked }

func (around) ServeHTTP(http.ResponseWriter, *http.Request) {}

// incomparable cannot be compared with another handler.
type incomparable struct {
	*marked
	_ []int
}

func TestSuffice(t *testing.T) {
	h := new(marked)
	if Suffice(h) {
		t.Error("a handler that has not been marked")
	}
	h.Reader = ReaderOf(h)
	if !Suffice(h) {
		t.Error("not the marked handler")
	}
	for name, other := range map[string]http.Handler{
		"around": around{h}, "its pointer": &around{h}, "incomparable": incomparable{marked: h}, "a copy": &marked{h.Reader},
		"its function": http.HandlerFunc(h.ServeHTTP), "nil": nil, "no handler of ours": http.NotFoundHandler(),
	} {
		if Suffice(other) {
			t.Errorf("%s", name)
		}
	}
}
