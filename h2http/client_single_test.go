//go:build go1.26

package h2http_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// eachClientConn runs f with a connection that http.Transport.NewClientConn has made, of
// net/http's HTTP/2 and of this package's. The server permits three streams; it answers
// "/wait" when the request has been given up, after sending the header.
func eachClientConn(t *testing.T, f func(t *testing.T, cc *http.ClientConn, base string)) {
	for _, s := range clientStacks {
		t.Run(s.name, func(t *testing.T) {
			tr, ok := s.make(t, new(clientSetup)).(*http.Transport)
			if !ok {
				return // Transport has no NewClientConn
			}
			o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/wait":
					<-r.Context().Done()
				case "/hang":
					w.WriteHeader(200)
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				default:
					io.WriteString(w, r.Host)
				}
			}), func(srv *http.Server) {
				srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 3}
			})
			u, err := url.Parse(o.url)
			if err != nil {
				t.Fatal(err)
			}
			cc, err := tr.NewClientConn(t.Context(), u.Scheme, u.Host)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				cc.Close()
				awaitState(t, cc, func() bool { return cc.Err() != nil })
			}()
			visit(t, cc, u.Scheme+"://first.example/") // then the server's SETTINGS have come
			awaitState(t, cc, func() bool { return cc.Available() == 3 })
			f(t, cc, u.Scheme+"://other.example")
		})
	}
}

// awaitState waits until ok, which the connection's state hook may have changed.
func awaitState(t *testing.T, cc *http.ClientConn, ok func() bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	cc.SetStateHook(func(*http.ClientConn) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer cc.SetStateHook(nil)
	timeout := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("the state is not reached: %d available, %d in flight, %v", cc.Available(), cc.InFlight(), cc.Err())
		}
	}
}

// visit makes a request and reads its response.
func visit(t *testing.T, cc *http.ClientConn, url string) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	resp, err := cc.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != req.URL.Host {
		t.Errorf("%q, %v", got, err)
	}
}

// TestClientConnSharesOne: every request goes over the one connection, whatever host it
// names, until that is closed.
func TestClientConnSharesOne(t *testing.T) {
	eachClientConn(t, func(t *testing.T, cc *http.ClientConn, base string) {
		visit(t, cc, base+"/")
		visit(t, cc, strings.Replace(base, "other", "another", 1)+"/")
		if err := cc.Err(); err != nil {
			t.Errorf("a connection in use has ended: %v", err)
		}
		cc.Close()
		awaitState(t, cc, func() bool { return cc.Err() != nil })
		req, _ := http.NewRequest("GET", base+"/", nil)
		if resp, err := cc.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Error("a request on a closed connection")
		}
		if n, m := cc.Available(), cc.InFlight(); n != 0 || m != 0 {
			t.Errorf("closed: %d available, %d in flight", n, m)
		}
	})
}

// TestClientConnReserves: streams that are reserved are not available to others, and
// every end of a request gives its stream back.
func TestClientConnReserves(t *testing.T) {
	eachClientConn(t, func(t *testing.T, cc *http.ClientConn, base string) {
		for i := range 3 {
			if err := cc.Reserve(); err != nil {
				t.Fatal(err)
			}
			if n, m := cc.Available(), cc.InFlight(); n != 2-i || m != i+1 {
				t.Errorf("%d reserved: %d available, %d in flight", i+1, n, m)
			}
		}
		if cc.Reserve() == nil {
			t.Error("a fourth stream of three was reserved")
		}
		cc.Release()
		free := func() bool { return cc.Available() == 2 && cc.InFlight() == 1 }
		awaitState(t, cc, func() bool { return cc.Available() == 1 })
		visit(t, cc, base+"/") // uses the second reservation
		awaitState(t, cc, free)
		for _, end := range []func(ctx context.Context, cancel func()){
			func(ctx context.Context, cancel func()) { // no valid request
				req, _ := http.NewRequestWithContext(ctx, "GET", base+"/", nil)
				req.Header["a b"] = []string{"x"}
				if _, err := cc.RoundTrip(req); err == nil {
					t.Error("an invalid request was sent")
				}
			},
			func(ctx context.Context, cancel func()) { // cancelled
				req, _ := http.NewRequestWithContext(ctx, "GET", base+"/wait", nil)
				cancel()
				if _, err := cc.RoundTrip(req); err == nil {
					t.Error("a cancelled request was answered")
				}
			},
			func(ctx context.Context, cancel func()) { // closed early
				req, _ := http.NewRequestWithContext(ctx, "GET", base+"/hang", nil)
				resp, err := cc.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if cc.InFlight() == 0 {
				if err := cc.Reserve(); err != nil {
					t.Fatal(err)
				}
			}
			end(ctx, cancel)
			cancel()
			awaitState(t, cc, func() bool { return cc.Available() == 3 && cc.InFlight() == 0 })
		}
	})
}

// TestClientConnWaits: a request beyond the server's limit, or beyond what others have
// reserved, waits for a stream.
func TestClientConnWaits(t *testing.T) {
	eachClientConn(t, func(t *testing.T, cc *http.ClientConn, base string) {
		for range 3 {
			if err := cc.Reserve(); err != nil {
				t.Fatal(err)
			}
		}
		var hanging []*http.Response
		for range 3 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", base+"/hang", nil)
			resp, err := cc.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			hanging = append(hanging, resp)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			visit(t, cc, base+"/")
		}()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", base+"/", nil)
			_, err := cc.RoundTrip(req)
			gone <- err
		}()
		cancel()
		if err := <-gone; err == nil {
			t.Error("a request beyond the limit was sent")
		}
		select {
		case <-done:
			t.Error("a request did not wait")
		default:
		}
		hanging[0].Body.Close()
		<-done
		for _, resp := range hanging {
			resp.Body.Close()
		}
		awaitState(t, cc, func() bool { return cc.Available() == 3 })
	})
}

// TestClientConnEndedContext: a request whose context has ended is not sent, and the place that was reserved for it is free again.
func TestClientConnEndedContext(t *testing.T) {
	eachClientConn(t, func(t *testing.T, cc *http.ClientConn, base string) {
		if strings.Contains(t.Name(), "/net/http") {
			t.Skip("net/http counts requests that are not sent as in flight for a while")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 20 {
			if err := cc.Reserve(); err != nil {
				t.Fatal(err)
			}
			req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
			resp, err := cc.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		}
		if n := cc.InFlight(); n != 0 {
			t.Errorf("%d requests are in flight", n)
		}
	})
}
