package h2http_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// endless starts an origin that sends n informational responses of 1 KB before each response.
func endless(t *testing.T, overTLS bool, n int) string {
	return rawOrigin(t, overTLS, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
		s := &script{}
		s.end = func(s *script, id uint32) {
			var b bytes.Buffer
			enc := hpack.NewEncoder(&b)
			for range n {
				b.Reset()
				enc.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
				enc.WriteField(hpack.HeaderField{Name: "link", Value: strings.Repeat("x", 1000)})
				s.do(func() {
					fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
				})
			}
			b.Reset()
			enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			s.do(func() {
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
			})
		}
		s.serve(fr)
	})
}

// TestInformationalResponsesAreBounded: without a trace that takes them, informational responses fail the request
// when they are longer than MaxResponseHeaderBytes together, as in net/http; with one they are its
// own to bound.
func TestInformationalResponsesAreBounded(t *testing.T) {
	const limit = 64 << 10
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) {
			for _, n := range []int{limit / 2 / 1000, 32 * limit / 1000} {
				for _, traced := range []bool{false, true} {
					rt := s.make(t, &clientSetup{tr: http.Transport{MaxResponseHeaderBytes: limit}})
					req, err := http.NewRequest("GET", endless(t, s.tls, n), nil)
					if err != nil {
						t.Fatal(err)
					}
					called := 0
					if traced {
						req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
							Got1xxResponse: func(int, textproto.MIMEHeader) error { called++; return nil },
						}))
					}
					resp, err := rt.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
					}
					if want := n*1000 < limit || traced; (err == nil) != want {
						t.Errorf("%d of 1 KB, traced %v: %v", n, traced, err)
					}
					if traced && called != n {
						t.Errorf("the trace was called for %d of %d", called, n)
					}
				}
			}
		})
	}
}
