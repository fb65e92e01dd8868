package h2http_test

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestRapidResetAtDefaultLimits mounts a rapid reset on a server whose handlers run on, so that further
// requests are refused, in fake time: the connection is read slowly and ends after 20 seconds, no more handlers run
// than twice the streams that are permitted, and a request on another connection is answered. With the race detector the limits are a
// tenth of the defaults.
func TestRapidResetAtDefaultLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &blocked{release: make(chan struct{})}
		srv := &http.Server{Handler: h}
		lasts := 20 * time.Second
		if raceEnabled {
			lasts /= 10
			if err := h2http.ConfigureServer(srv, &h2http.Config{Limits: h2.Limits{Resets: 100, Useless: 1000}}); err != nil {
				t.Fatal(err)
			}
		}
		l := faultnet.Listen(t, faultnet.Memory)
		served := make(chan struct{})
		go func() { defer close(served); h2http.Serve(l, srv) }()
		defer func() { srv.Close(); <-served; close(h.release) }()
		tr := &h2http.Transport{DialContext: l.Dial}
		defer tr.CloseIdleConnections()
		nc, err := l.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()

		begun := time.Now()
		go func() {
			var out, block bytes.Buffer
			fr, enc := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
			out.WriteString(http2.ClientPreface)
			fr.WriteSettings()
			encode := func() {
				block.Reset()
				for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "x"}} {
					enc.WriteField(f)
				}
			}
			encode()
			for id := uint32(1); ; id += 2 {
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
				fr.WriteRSTStream(id, http2.ErrCodeCancel)
				if _, err := out.WriteTo(nc); err != nil {
					return
				}
				if id == 1 {
					encode() // from now on by indices alone
				}
			}
		}()
		code, ended := http2.ErrCodeNo, make(chan struct{})
		go func() {
			defer close(ended)
			fr := http2.NewFramer(nil, nc)
			for f, err := fr.ReadFrame(); err == nil; f, err = fr.ReadFrame() {
				if g, ok := f.(*http2.GoAwayFrame); ok {
					code = g.ErrCode
				}
			}
		}()
		<-ended
		// How many resets the server reads is h2's (TestRefusedResetHeldBack): what the client has written
		// includes what the server discards after its GOAWAY.
		const streams = 2 * 250 // as many handlers of ended streams as open ones
		if n, d := h.most.Load(), time.Since(begun); n > streams || d < lasts || d > 2*lasts || code != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("the connection ended after %v with %v, %d handlers ran; %d are allowed", d, code, n, streams)
		}
		resp, err := (&http.Client{Transport: tr}).Get("http://x/alive")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
}
