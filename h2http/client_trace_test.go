package h2http_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
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
