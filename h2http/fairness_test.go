package h2http_test

import (
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// TestFairResponses: responses on 64 streams beside a long one end after few bytes of it, unless the client has sent a priority, and
// behind an intermediary also then.
func TestFairResponses(t *testing.T) {
	const (
		long, short = 64 << 20, 64 << 10
		streams     = 64
		few         = 8 << 20 // some handlers may begin late
	)
	for name, fields := range map[string][]string{
		"no priority":                   nil,
		"priority through Via":          {"priority", "u=3", "via", "1.1 proxy"},
		"priority through Forwarded":    {"priority", "u=3", "forwarded", "for=192.0.2.1"},
		"priority by X-Forwarded-For":   {"priority", "u=3", "x-forwarded-for", "192.0.2.1"},
		"incremental, as is its sender": {"priority", "i"},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, func(t *testing.T, s stack) {
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n := short
					if r.URL.Path == "/long" {
						n = long
					}
					w.WriteHeader(200)
					w.(http.Flusher).Flush()
					w.Write(make([]byte, n))
				}))
				p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
				p.request(1, end, "GET", "/long", fields...)
				p.until("the window's end", func() bool { s := p.streams[1]; return s != nil && s.data == 65535 })
				for i := range uint32(streams) {
					p.request(3+2*i, end, "GET", "/", fields...)
					p.wait(3+2*i, 1)
				}
				for given, ended := 65535, 0; ended < streams; {
					p.window(0, short)
					given += short
					p.until("the window to be used", func() bool {
						total := 0
						ended = 0
						for id, s := range p.streams {
							total += s.data
							if id != 1 && s.ended {
								ended++
							}
						}
						return total == given
					})
					p.mu.Lock()
					n := p.streams[1].data
					p.mu.Unlock()
					if n > few {
						t.Fatalf("%d of %d short responses have ended after %d bytes of the long one", ended, streams, n)
					}
				}
			})
		})
	}
}
