package h2http_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/internal/preset"
)

// TestPreset compares responses whose fields are set by package preset with those of the same steps with the map.
func TestPreset(t *testing.T) {
	type set func(key string, values ...string)
	s := stacks[slices.IndexFunc(stacks, func(s stack) bool { return s.own })]
	for _, c := range []struct {
		name    string
		handler func(w http.ResponseWriter, set set)
	}{
		{"content type", func(w http.ResponseWriter, set set) {
			set("Content-Type", "a/b")
			io.WriteString(w, "x")
		}},
		{"set again", func(w http.ResponseWriter, set set) {
			set("X-Field", "a", "b")
			set("X-Field", "c")
		}},
		{"without values", func(w http.ResponseWriter, set set) {
			set("Content-Type")
			set("Date")
			io.WriteString(w, "x")
		}},
		{"after Header", func(w http.ResponseWriter, set set) {
			w.Header().Set("X-Field", "a")
			set("X-Other", "b")
			set("X-Field", "c")
		}},
		{"before Header", func(w http.ResponseWriter, set set) {
			set("X-Field", "a")
			set("X-Other", "b")
			w.Header().Add("X-Field", "c")
			w.Header().Del("X-Other")
			set("X-Third", w.Header().Get("X-Field"))
		}},
		{"after WriteHeader", func(w http.ResponseWriter, set set) {
			set("X-Field", "a")
			w.WriteHeader(http.StatusCreated)
			set("X-Field", "b")
			set("X-Other", "c")
		}},
		{"trailers", func(w http.ResponseWriter, set set) {
			set("Trailer", "X-Declared, X-Unset")
			set("X-Field", "a")
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			set("X-Declared", "b", " c ")
			set(http.TrailerPrefix+"X-Late", "d", "e\n")
			set(http.TrailerPrefix+"x-lower", "f")
		}},
		{"trailers, then Header", func(w http.ResponseWriter, set set) {
			set(http.TrailerPrefix+"X-Late", "a")
			w.Header().Set(http.TrailerPrefix+"X-Later", "b")
		}},
		{"length, connection and encoding", func(w http.ResponseWriter, set set) {
			set("Content-Length", "3")
			set("Content-Encoding", "x")
			set("Transfer-Encoding", "chunked")
			io.WriteString(w, "abc")
		}},
		{"content beyond the length", func(w http.ResponseWriter, set set) {
			set("Content-Length", "1")
			_, err := io.WriteString(w, "abc")
			set(http.TrailerPrefix+"Error", err.Error())
		}},
		{"invalid", func(w http.ResponseWriter, set set) {
			set("Bad Name", "a")
			set("X-Bad", "a\r\nb", " c\t")
			set("X-Empty", "")
		}},
		{"informational", func(w http.ResponseWriter, set set) {
			set("Link", "a", "b")
			w.WriteHeader(http.StatusEarlyHints)
			set("X-Field", "c")
		}},
		{"not modified", func(w http.ResponseWriter, set set) {
			set("Etag", `"a"`)
			w.WriteHeader(http.StatusNotModified)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				byMap := func(n *notes, w http.ResponseWriter, r *http.Request) {
					c.handler(w, func(key string, values ...string) { w.Header()[key] = values })
				}
				preset := func(n *notes, w http.ResponseWriter, r *http.Request) {
					c.handler(w, func(key string, values ...string) { preset.Set(w, key, values) })
				}
				m := semantics{handler: byMap, client: func(p *peer) { p.request(1, end, method, "/") }}
				want := m.run(t, s)
				m.handler = preset
				if got := m.run(t, s); got != want {
					t.Errorf("%s:\n%s\nby the map:\n%s", method, got, want)
				}
			}
		})
	}
}
