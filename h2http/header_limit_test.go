package h2http_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// TestHeaderListOfTheServer: a client does not send a header list, or trailers, that the server's SETTINGS_MAX_HEADER_LIST_SIZE
// excludes; the connection goes on.
func TestHeaderListOfTheServer(t *testing.T) {
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) {
			var requests, resets atomic.Int32
			url, conns := scripted(t, s.tls, func(int) *script {
				return &script{
					settings: []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 2000}},
					request:  func(*script, uint32) { requests.Add(1) },
					reset:    func(uint32) { resets.Add(1) },
					end:      ok,
				}
			})
			rt := s.make(t, new(clientSetup))
			short, _ := http.NewRequest("GET", url, nil)
			mustRoundTrip(t, rt, short) // the settings have come
			long := short.Clone(t.Context())
			long.Header.Set("X", strings.Repeat("x", 2000))
			if resp, err := rt.RoundTrip(long); err == nil {
				resp.Body.Close()
				t.Error("a header list above the limit was sent")
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("the server has seen %d requests", n)
			}
			trailers, _ := http.NewRequest("POST", url, strings.NewReader("hello"))
			trailers.Trailer = http.Header{"X": {strings.Repeat("x", 2000)}}
			if resp, err := rt.RoundTrip(trailers); err == nil {
				resp.Body.Close()
				t.Error("trailers above the limit were sent")
			}
			mustRoundTrip(t, rt, short) // the server reads it after the RST_STREAM
			if n := resets.Load(); n != 1 {
				t.Errorf("%d streams were reset, not that of the trailers alone", n)
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}
