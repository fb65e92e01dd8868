package h2http_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestUnwantedRequestsGiveTheWindowBack: what comes for requests whose handlers have closed the body, or whose deadline for reading has passed, and that go on,
// does not take the connection's window from the other requests.
func TestUnwantedRequestsGiveTheWindowBack(t *testing.T) {
	const ofStream, ofConn = 256 << 10, 1 << 20
	for name, end := range map[string]func(http.ResponseWriter, *http.Request) error{
		"closed": func(_ http.ResponseWriter, r *http.Request) error { return r.Body.Close() },
		"deadline": func(w http.ResponseWriter, _ *http.Request) error {
			return http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s stack) {
				release := make(chan struct{})
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/read" {
						n, err := io.Copy(io.Discard, r.Body)
						if n != ofConn || err != nil {
							t.Errorf("%d bytes, %v", n, err)
						}
						return
					}
					if err := end(w, r); err != nil {
						t.Error(err)
					}
					w.(http.Flusher).Flush()
					<-release
				}), func(srv *http.Server) {
					srv.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: ofStream, MaxReceiveBufferPerConnection: ofConn}
				})
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				defer close(release)
				send := func(path string, body io.Reader) *http.Response {
					t.Helper()
					req, err := http.NewRequestWithContext(ctx, "POST", r.url+path, body)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := r.client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { resp.Body.Close() })
					return resp
				}
				for range 2 * ofConn / ofStream {
					body, write := io.Pipe()
					t.Cleanup(func() { write.Close() })
					send("/", body) // the handler has ended reading
					if _, err := write.Write(make([]byte, ofStream)); err != nil {
						t.Fatal(err)
					}
				}
				send("/read", bytes.NewReader(make([]byte, ofConn)))
			})
		})
	}
}
