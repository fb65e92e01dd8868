package h2http_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestGotConnOfIdleConnections: as by net/http, httptrace's GotConn is told whether the connection was idle, and for how long.
func TestGotConnOfIdleConnections(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, s := range clientStacks {
		if s.tls {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				released := make(chan struct{})
				origin := &script{end: func(s *script, id uint32) {
					if id != 5 {
						ok(s, id)
						return
					}
					go func() { // the third request is answered later
						<-released
						ok(s, id)
					}()
				}}
				rt := s.make(t, &clientSetup{dial: func(context.Context, string, string) (net.Conn, error) {
					l := faultnet.New(t, faultnet.Memory)
					go func() {
						defer l.Server.Close()
						if _, err := io.ReadFull(l.Server, make([]byte, len(http2.ClientPreface))); err == nil {
							origin.serve(http2.NewFramer(l.Server, l.Server))
						}
					}()
					return l.Client, nil
				}})
				get := func(when string, want httptrace.GotConnInfo) {
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
						if got.Conn = nil; got != want {
							t.Errorf("%s: %+v, not %+v", when, got, want)
						}
					}})
					req, _ := http.NewRequestWithContext(ctx, "GET", "http://server/", nil)
					mustRoundTrip(t, rt, req)
				}
				later := func(d time.Duration) {
					<-time.After(d)
					synctest.Wait()
				}
				get("a new connection", httptrace.GotConnInfo{})
				later(3 * time.Second)
				get("idle for 3 s", httptrace.GotConnInfo{Reused: true, WasIdle: true, IdleTime: 3 * time.Second})
				later(0)
				go get("idle until now", httptrace.GotConnInfo{Reused: true, WasIdle: true})
				later(time.Second)
				get("in use", httptrace.GotConnInfo{Reused: true})
				later(time.Second)
				close(released)
				later(2 * time.Second)
				get("idle for 2 s, since the longer request", httptrace.GotConnInfo{Reused: true, WasIdle: true, IdleTime: 2 * time.Second})
				later(0)
				rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			})
		})
	}
}

// TestWroteHeaderField: the hook is called for the fields for which net/http calls it.
func TestWroteHeaderField(t *testing.T) {
	want := make(map[string][]string)
	eachClient(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		rt := s.make(t, new(clientSetup))
		for name, body := range map[string]func() io.Reader{
			"none":   func() io.Reader { return nil },
			"short":  func() io.Reader { return strings.NewReader("1234") },
			"stream": func() io.Reader { return io.MultiReader(strings.NewReader("12")) },
		} {
			for range 3 { // the header list is recognised when it comes again
				var mu sync.Mutex
				var got []string
				req, _ := http.NewRequest("POST", o.url, body()) // a transport may read a body after the response
				req.Header.Set("A", "b")
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					WroteHeaderField: func(key string, values []string) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, fmt.Sprint(key, "=", values))
					},
				}))
				mustRoundTrip(t, rt, req)
				mu.Lock()
				slices.Sort(got)
				got = slices.DeleteFunc(got, func(f string) bool { return strings.HasPrefix(f, ":") })
				if want[name] == nil {
					want[name] = got
				}
				if !slices.Equal(got, want[name]) {
					t.Errorf("%s: %q, not %q", name, got, want[name])
				}
				mu.Unlock()
			}
		}
	})
}

// TestServerOfHTTP1IsNamed: the error of a request over HTTP/2 to a server that answers by HTTP/1.1 says so.
func TestServerOfHTTP1IsNamed(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for _, s := range clientStacks {
		if !s.own || s.tls {
			continue
		}
		req, _ := http.NewRequest("GET", srv.URL, nil)
		if _, err := s.make(t, new(clientSetup)).RoundTrip(req); err == nil || !strings.Contains(err.Error(), "HTTP/1.1") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
