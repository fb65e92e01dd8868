package h2http_test

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

// TestHugeContentLength: a request whose ContentLength is the largest that there is, as a proxy may get it from a client, fails because its
// body is shorter.
func TestHugeContentLength(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		rt := s.make(t, &clientSetup{})
		req, err := http.NewRequest("POST", o.url, plain{strings.NewReader("short")})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = math.MaxInt64
		if resp, err := rt.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("the response is %s", resp.Status)
		}
	})
}
