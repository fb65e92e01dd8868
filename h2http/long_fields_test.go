package h2http_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// allocates returns how many bytes all goroutines allocate while f runs.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const (
	announced  = 4000    // trailers
	mostForOne = 8 << 20 // bytes that one request or response of this kind may take, the peer's in this process, too
)

// TestAttackManyTrailersAndCookies: what a request takes grows with its length, and not with the square of how many trailers it announces
// or into how many fields its cookies are divided.
func TestAttackManyTrailersAndCookies(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		got := make(chan *http.Request, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r }))
		p := r.dialPeer(t)
		p.ping()
		var cookies []string
		crumb := "a=" + strings.Repeat("b", 1000)
		for range 400 {
			cookies = append(cookies, "cookie", crumb)
		}
		for i, fields := range [][]string{{"trailer", strings.Repeat("x,", announced) + "y"}, cookies, {"cookie", "a=1", "cookie", "b=2"}} {
			id := uint32(2*i + 1)
			n := allocates(func() {
				p.request(id, end, "GET", "/", fields...)
				p.transcript(id)
			})
			if n > mostForOne {
				t.Errorf("fields that begin with %q take %d bytes", fields[0], n)
			}
			request := <-got
			switch i {
			case 0:
				if _, ok := request.Trailer["Y"]; !ok || len(request.Trailer) != 2 {
					t.Errorf("the trailers are %v", request.Trailer)
				}
			case 1:
				if c := request.Header["Cookie"]; len(c) != 1 || strings.Count(c[0], "; "+crumb) != 399 {
					t.Errorf("there are %d cookies: %.100q", len(c), c)
				}
			case 2:
				if c := request.Header["Cookie"]; len(c) != 1 || c[0] != "a=1; b=2" {
					t.Errorf("the cookies are %q", c)
				}
			}
		}
	})
}

// TestManyTrailersOfAResponse is the same for a client.
func TestManyTrailersOfAResponse(t *testing.T) {
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) {
			o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/many" {
					w.Header().Set("Trailer", strings.Repeat("x,", announced)+"y")
				}
			}))
			client := &http.Client{Transport: s.make(t, &clientSetup{})}
			get := func(path string) *http.Response {
				resp, err := client.Get(o.url + path)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				return resp
			}
			get("/") // makes the connection
			var resp *http.Response
			if n := allocates(func() { resp = get("/many") }); n > mostForOne {
				t.Errorf("a response takes %d bytes", n)
			}
			if _, ok := resp.Trailer["Y"]; !ok || len(resp.Trailer) != 2 {
				t.Errorf("the trailers are %v", resp.Trailer)
			}
		})
	}
}
