package h2http_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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

// TestLongFieldsForServers: a client sends a field of 200 KiB to a server that names no limit, as net/http's does.
func TestLongFieldsForServers(t *testing.T) {
	const long = 200 << 10
	eachClient(t, func(t *testing.T, s clientStack) {
		arrived := make(chan int, 1)
		url := rawOrigin(t, s.tls, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
			fr.WriteSettings()
			fr.ReadMetaHeaders, fr.MaxHeaderListSize = hpack.NewDecoder(4096, nil), 2*long
			for {
				f, err := fr.ReadFrame()
				if err != nil {
					return
				}
				switch f := f.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						fr.WriteSettingsAck()
					}
				case *http2.MetaHeadersFrame:
					for _, field := range f.RegularFields() {
						if field.Name == "x" {
							arrived <- len(field.Value)
						}
					}
					ok(&script{fr: fr}, f.StreamID)
				}
			}
		})
		rt := s.make(t, new(clientSetup))
		req, _ := http.NewRequest("GET", url, nil)
		mustRoundTrip(t, rt, req) // the settings have come
		req.Header.Set("X", strings.Repeat("x", long))
		mustRoundTrip(t, rt, req)
		if n := <-arrived; n != long {
			t.Errorf("%d bytes arrived, not %d", n, long)
		}
	})
}

// TestLongFieldsForClients: a server sends a field of 200 KiB to a client that names no limit, and to one that names a lower limit, as
// net/http's does.
func TestLongFieldsForClients(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, settings := range map[string][]http2.Setting{"none": nil, "2000": {{ID: http2.SettingMaxHeaderListSize, Val: 2000}}} {
		t.Run("limit "+name, func(t *testing.T) {
			each(t, func(t *testing.T, s stack) {
				p := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", long) })).dialPeer(t, settings...)
				p.ping() // the server has the settings
				p.request(1, end, "GET", "/")
				if got := p.transcript(1); !strings.Contains(got, "x="+long) {
					t.Errorf("the field has not arrived: %s", clip(got))
				}
			})
		})
	}
}

// TestManyLongFields sends header lists that need more than 32 CONTINUATION frames of 16 KiB: of 600 KiB to servers, and of 5 MiB to
// clients. Both are below net/http's default limits.
func TestManyLongFields(t *testing.T) {
	field := strings.Repeat("x", 64<<10)
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["X"] = slices.Repeat([]string{field}, 80)
		}))
		rt := s.make(t, new(clientSetup))
		req, _ := http.NewRequest("GET", o.url, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := len(resp.Header["X"]); n != 80 {
			t.Errorf("%d fields", n)
		}
	})
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("N", strconv.Itoa(len(r.Header["X"])))
		}))
		req, _ := http.NewRequest("GET", r.url, nil)
		req.Header["X"] = slices.Repeat([]string{field}, 10)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := resp.Header.Get("N"); n != "10" {
			t.Errorf("%s fields", n)
		}
	})
}
