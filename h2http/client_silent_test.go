package h2http_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// TestSilentConnection: a connection whose server is silent from some time on is not used for ever by requests that are given
// up in time: they count as open until the server has answered a PING, of which there is one, and then another connection is dialled.
func TestSilentConnection(t *testing.T) {
	const limit = 5
	for name, transport := range map[string]func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) http.RoundTripper{
		"Transport": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) http.RoundTripper {
			return &h2http.Transport{DialContext: dial, Config: h2http.Config{Pool: tarntest.NewPool(t)}}
		},
		"ConfigureTransport": func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) http.RoundTripper {
			tr := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
				t.Fatal(err)
			}
			return tr
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials, pings := 0, 0
				var ends []net.Conn
				serve := func(nc net.Conn, answers int) {
					io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
					fr := http2.NewFramer(nc, nc)
					out := make(chan func(), 100) // net.Pipe holds nothing
					go func() {
						for f := range out {
							f()
						}
					}()
					defer close(out)
					out <- func() {
						fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
						fr.WriteSettingsAck()
					}
					for {
						f, err := fr.ReadFrame()
						if err != nil {
							return
						}
						switch f := f.(type) {
						case *http2.HeadersFrame:
							if answers--; answers >= 0 {
								id := f.StreamID
								out <- func() {
									fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true})
								}
							}
						case *http2.PingFrame:
							pings++
						}
					}
				}
				tr := transport(t, func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					ends = append(ends, near, far)
					if dials++; dials == 1 {
						go serve(far, 1)
					} else {
						go serve(far, 1000)
					}
					return near, nil
				})
				failed := 0
				get := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					req, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
					resp, err := tr.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
					}
					return err
				}
				if err := get(); err != nil {
					t.Fatal(err)
				}
				for get() != nil {
					if failed++; failed > limit {
						t.Fatalf("%d requests have failed", failed)
					}
				}
				synctest.Wait()
				if failed != limit || dials != 2 || pings != 1 {
					t.Errorf("%d requests failed, %d connections, %d PINGs", failed, dials, pings)
				}
				for _, nc := range ends {
					nc.Close()
				}
				synctest.Wait()
			})
		})
	}
}
