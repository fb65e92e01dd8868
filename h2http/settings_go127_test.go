//go:build go1.27

package h2http_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestMaxHeaderValueCount sends as many fields as the server's setting permits, and one more.
func TestMaxHeaderValueCount(t *testing.T) {
	for limit, most := range map[int]int{0: http.DefaultMaxHeaderValueCount, 10: 10, 2000: 2000} {
		attacked(t, func(t *testing.T, s stack) {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }), func(srv *http.Server) {
				srv.MaxHeaderValueCount = limit
			})
			p := r.dialPeer(t)
			fields := slices.Repeat([]string{"a", "b"}, most)
			p.request(1, end, "GET", "/", fields...)
			if got := p.transcript(1); !strings.Contains(got, ":status=204") {
				t.Errorf("limit %d, %d fields: %s", limit, most, clip(got))
			}
			p.request(3, end, "GET", "/", append(fields, "a", "b")...)
			if got := p.transcript(3); !strings.Contains(got, ":status=431") {
				t.Errorf("limit %d, %d fields: %s", limit, most+1, clip(got))
			}
		})
	}
}
