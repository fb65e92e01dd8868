package h2http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// countedRequests is a server and a transport whose requests are counted.
type countedRequests struct {
	server *h2http.Server
	client *h2http.Transport
}

// countedPair serves h in a bubble, attached to a debug page if that is not nil.
func countedPair(t *testing.T, h http.Handler, page *debug.Registry) countedRequests {
	l := newPipes()
	pool := tarntest.NewPool(t)
	s, err := h2http.NewServer(&http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}, &h2http.Config{Pool: pool, ExtendedConnect: h2.Permit})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	rt := &h2http.Transport{DialContext: l.dial, Config: h2http.Config{Pool: pool}}
	t.Cleanup(func() {
		rt.CloseIdleConnections()
		s.Close()
		<-served
	})
	if page != nil {
		page.AddEndpoints(s, rt)
	}
	return countedRequests{s, rt}
}

// send sends a request and reads the response to its end, if there is one.
func (c countedRequests) send(ctx context.Context, method, url string) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		panic(err)
	}
	if resp, err := c.client.RoundTrip(r); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	synctest.Wait()
}

// codes returns the ended requests of each route by outcome.
func codes(e endpoint.State) map[string]string {
	all := make(map[string]string)
	for _, m := range e.Methods {
		all[m.Name] = fmt.Sprint(m.Codes)
	}
	return all
}

// TestRequestsByRoute: requests are counted by method, pattern and class of status, on the client by host; nothing is before a page shows
// them.
func TestRequestsByRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(n) } }
		mux.HandleFunc("GET /items/{id}", status(200))
		mux.HandleFunc("POST /items/", status(503))
		mux.HandleFunc("/moved", status(302))
		mux.HandleFunc("/odd", status(789))
		mux.HandleFunc("/panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		mux.HandleFunc("/waits", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		copied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/copied" {
				r = r.WithContext(r.Context()) // a copy
				r.URL.Path = "/moved"
			}
			mux.ServeHTTP(w, r)
		})
		page := debug.NewRegistry()
		c := countedPair(t, copied, nil)
		ctx := t.Context()
		c.send(ctx, "GET", "http://pipe/items/1")
		if e := c.server.Endpoint(); e.Observed || e.Calls != 0 {
			t.Errorf("counted before it was added to a page: %+v", e)
		}
		page.AddEndpoints(c.server, c.client)
		for _, r := range [][2]string{{"GET", "/items/1"}, {"GET", "/items/2"}, {"HEAD", "/items/1"}, {"POST", "/items/x"}, {"BREW", "/moved"},
			{"GET", "/moved"}, {"GET", "/copied"}, {"GET", "/nowhere"}, {"GET", "/odd"}, {"GET", "/panics"}} {
			c.send(ctx, r[0], "http://pipe"+r[1])
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		c.send(limited, "GET", "http://pipe/waits")
		want := map[string]string{"GET /items/{id}": "map[2xx:2]", "HEAD /items/{id}": "map[2xx:1]", "POST /items/": "map[5xx:1]",
			"(other method) /moved": "map[3xx:1]", "GET /moved": "map[3xx:1]", "GET other": "map[3xx:1 4xx:1]", "GET /odd": "map[5xx:1]",
			"GET /panics": "map[reset:1]", "GET /waits": "map[reset:1]"}
		server := c.server.Endpoint()
		if got := codes(server); !maps.Equal(got, want) {
			t.Errorf("server: %v\nwant %v", got, want)
		}
		if server.Calls != 11 || server.Done != 11 || server.Active != 0 || server.Failed != 4 {
			t.Errorf("server: %d begun, %d ended, %d active, %d failed", server.Calls, server.Done, server.Active, server.Failed)
		}
		want = map[string]string{"GET pipe": "map[2xx:2 3xx:2 4xx:1 5xx:1 error:2]", "HEAD pipe": "map[2xx:1]", "POST pipe": "map[5xx:1]", "(other method) pipe": "map[3xx:1]"}
		if got := codes(c.client.Endpoint()); !maps.Equal(got, want) {
			t.Errorf("client: %v\nwant %v", got, want)
		}
	})
}

// TestRequestsInTime: what requests take is that since the server counts, and that of the last minute; requests in progress are counted.
func TestRequestsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		took := 100 * time.Millisecond
		mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) { <-time.After(took) })
		c := countedPair(t, mux, debug.NewRegistry())
		for range 9 {
			c.send(t.Context(), "GET", "http://pipe/")
		}
		<-time.After(2 * time.Minute)
		took = time.Second
		go c.client.RoundTrip(must(http.NewRequest("GET", "http://pipe/", nil)))
		<-time.After(took / 2)
		for _, e := range []endpoint.State{c.server.Endpoint(), c.client.Endpoint()} {
			if e.Active != 1 || e.Calls != 10 || e.Done != 9 || len(e.Methods) != 1 || e.Methods[0].Minute.Ended != 0 {
				t.Errorf("while a request is in progress: %+v", e)
			}
		}
		<-time.After(took)
		for _, e := range []endpoint.State{c.server.Endpoint(), c.client.Endpoint()} {
			m := e.Methods[0]
			if e.Active != 0 || m.Minute.Ended != 1 || !near(m.Minute.P50, 1) || !near(m.Minute.P99, 1) {
				t.Errorf("in the last minute: %+v", m)
			}
			if !near(m.P50, 0.1) || !near(m.P99, 1) || e.Seconds != 1.9 {
				t.Errorf("since the start: %+v, %v s", m, e.Seconds)
			}
		}
	})
}

// near reports whether got is want to an eighth.
func near(got, want float64) bool { return got > want*7/8 && got < want*9/8 }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRoutesAreBounded: a client of many hosts is reported with a bounded number of routes, and all its requests are counted.
func TestRoutesAreBounded(t *testing.T) {
	rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }}
	debug.NewRegistry().AddEndpoints(rt)
	const hosts = 1000
	for i := range hosts {
		rt.RoundTrip(must(http.NewRequest("GET", fmt.Sprintf("http://host%d/", i), nil)))
	}
	rt.RoundTrip(must(http.NewRequest("GET", "http://\xff/", nil)))
	e := rt.Endpoint()
	if e.Done != hosts+1 || e.Failed != hosts+1 || len(e.Methods)+e.More != 257 || e.Methods[0].Name != "GET other" {
		t.Errorf("%d requests of %d routes, the first %q", e.Done, len(e.Methods)+e.More, e.Methods[0].Name)
	}
}

// TestRoutesAreNotTheClients: neither a path that a ServeMux redirects to nor a host of any length is a route.
func TestRoutesAreNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.HandleFunc("/rooms/{id}/", func(http.ResponseWriter, *http.Request) {})
		c := countedPair(t, mux, debug.NewRegistry())
		for _, p := range []string{"/rooms/1", "/rooms/2%2F3", "/rooms/4%2F", "/rooms/.%2F5"} {
			r := must(http.NewRequest(http.MethodConnect, "http://pipe"+p, nil))
			r.Header.Set(":protocol", "websocket")
			if resp, err := c.client.RoundTrip(r); err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
				t.Errorf("%s: %v, %v", p, resp, err)
			} else {
				resp.Body.Close()
			}
			synctest.Wait()
		}
		c.send(t.Context(), "GET", "http://pipe/rooms/1")
		want := map[string]string{"CONNECT other": "map[3xx:4]", "GET /rooms/{id}/": "map[3xx:1]"}
		if got := codes(c.server.Endpoint()); !maps.Equal(got, want) {
			t.Errorf("server: %v\nwant %v", got, want)
		}
		c.send(t.Context(), "PUT", "http://"+strings.Repeat("x", 2000)+"/")
		if got := codes(c.client.Endpoint()); got["PUT other"] == "" {
			t.Errorf("client: %v", got)
		}
	})
}
