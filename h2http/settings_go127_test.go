//go:build go1.27

package h2http_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
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

// TestDisableClientPriority has two responses wait for the connection's window, which suffices for one. The client asks for the second
// to come first; they share it.
func TestDisableClientPriority(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		const size = 600 << 10
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			w.Write(make([]byte, size))
		}), func(srv *http.Server) { srv.DisableClientPriority = true })
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535})
		p.request(1, end, "GET", "/") // takes the connection's window
		p.until("the window's end", func() bool { s := p.streams[1]; return s != nil && s.data == 65535 })
		p.mu.Lock()
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		p.mu.Unlock()
		p.reset(1, http2.ErrCodeCancel)
		p.request(3, end, "GET", "/", "priority", "u=7")
		p.request(5, end, "GET", "/", "priority", "u=0")
		p.priorityUpdate(3, "u=7")
		p.wait(3, 1)
		p.wait(5, 1)
		var first, second int
		for given := 100 << 10; given <= size; given += 100 << 10 { // in parts: the second response may begin to wait after the first
			p.window(0, 100<<10)
			p.until("the window's end", func() bool {
				first, second = p.streams[3].data, p.streams[5].data
				return first+second == given
			})
		}
		if first < 100<<10 {
			t.Errorf("%d and %d bytes", first, second)
		}
	})
}
