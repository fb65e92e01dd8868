package h2http_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/fields"
)

// reader is a handler that is marked as one that needs no Header.
type reader struct {
	fields.Reader
	f http.HandlerFunc
}

func newReader(f http.HandlerFunc) *reader {
	h := &reader{f: f}
	h.Reader = fields.ReaderOf(h)
	return h
}

func (h *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.f(w, r) }

// listed writes a request's fields, its trailers' names, host and length, and where the fields are.
func listed(w http.ResponseWriter, r *http.Request, place bool) {
	h, where := r.Header, "Header"
	if l := fields.Of(w); l != nil {
		if h != nil {
			fmt.Fprint(w, "in two places ")
		}
		h, where = maps.Collect(l.All), "List"
		for key, values := range h {
			if !slices.Equal(l.Get(key), values) {
				fmt.Fprintf(w, "%s is %q and %q ", key, values, l.Get(key))
			}
		}
	}
	io.Copy(io.Discard, r.Body)
	for _, key := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(w, "%s=%q ", key, h[key])
	}
	fmt.Fprintf(w, "%s %d %v", r.Host, r.ContentLength, slices.Sorted(maps.Keys(r.Trailer)))
	if place {
		fmt.Fprint(w, " in ", where)
	}
}

// TestFieldsWithoutHeader compares the fields that a marked handler sees with those in the Header of another one.
func TestFieldsWithoutHeader(t *testing.T) {
	s := stacks[slices.IndexFunc(stacks, func(s stack) bool { return s.name == "Serve" })]
	plain := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { listed(w, r, false) }))
	marked := s.start(t, newReader(func(w http.ResponseWriter, r *http.Request) { listed(w, r, false) }))
	for _, c := range [][]string{
		nil,
		{"user-agent", "a", "accept", "b"},
		{"x-a", "1", "x-a", "2", "x-b", "3"},
		{"x-1", "a", "x-2", "b", "x-3", "c", "x-4", "d", "x-5", "e", "x-6", "f"},
		{"cookie", "a=1", "cookie", "b=2", "cookie", "c=3"},
		{"cookie", "a=1"},
		{"expect", "100-continue", "x-a", "1"},
		{"expect", "something"},
		{"host", "example.com", "content-length", "0"},
		{"trailer", "x-end, x-other", "te", "trailers"},
		{"priority", "u=1", "x-empty", ""},
	} {
		p, q := plain.dialPeer(t), marked.dialPeer(t)
		id := uint32(1)
		for range 4 { // later lists have their fields in the table, and are remembered
			p.request(id, end, "GET", "/", c...)
			q.request(id, end, "GET", "/", c...)
			if got, want := q.transcript(id), p.transcript(id); got != want {
				t.Errorf("%q, request %d:\n%s\nwith a Header:\n%s", c, id, got, want)
			}
			id += 2
		}
		for i := range 3 { // a field that is another one each time
			f := append(slices.Clone(c), "x-differs", fmt.Sprint(i))
			p.request(id, end, "GET", "/", f...)
			q.request(id, end, "GET", "/", f...)
			if got, want := q.transcript(id), p.transcript(id); got != want {
				t.Errorf("%q, request %d:\n%s\nwith a Header:\n%s", f, id, got, want)
			}
			id += 2
		}
	}
}

// TestHeaderForOthers has a request without a Header where the server calls a marked handler itself, and an ordinary one elsewhere.
func TestHeaderForOthers(t *testing.T) {
	h := newReader(func(w http.ResponseWriter, r *http.Request) { listed(w, r, true) })
	embedding := struct{ *reader }{h}
	changing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Field", "changed")
		h.ServeHTTP(w, r)
	})
	mux := http.NewServeMux()
	mux.Handle("/", h)
	each(t, func(t *testing.T, s stack) {
		for _, c := range []struct {
			name    string
			handler http.Handler
			want    string
		}{
			{"marked", h, "List"}, {"embedding", embedding, "Header"}, {"changing", changing, "Header"}, {"mux", mux, "Header"},
		} {
			r := s.start(t, c.handler)
			p := r.dialPeer(t)
			p.request(1, end, "OPTIONS", "*") // answered by the server, which needs none
			if got, want := p.transcript(1), "content-length=0"; !strings.Contains(got, want) {
				t.Errorf("%s: OPTIONS *: %s", c.name, got)
			}
			for range 3 {
				req, err := http.NewRequest("GET", r.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Field", "sent")
				resp, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				value, where := "sent", "Header"
				if c.name == "changing" {
					value = "changed"
				}
				if s.name == "Serve" || s.name == "ServeTLS" {
					where = c.want
				}
				want := fmt.Sprintf("Accept-Encoding=[\"gzip\"] User-Agent=[\"Go-http-client/2.0\"] X-Field=[%q] %s 0 [] in %s", value, r.addr, where)
				if string(got) != want {
					t.Errorf("%s: %s; want %s", c.name, got, want)
				}
			}
		}
	})
}
