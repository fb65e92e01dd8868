package h2http_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
)

// cloned returns a configured http.Transport, without certificates that it trusts, and its clone.
func cloned(t *testing.T, overTLS bool) (tr, clone *http.Transport) {
	t.Helper()
	tr = &http.Transport{DialContext: dialer(t), TLSClientConfig: new(tls.Config)}
	if !overTLS {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: drainedPool(t)}); err != nil {
		t.Fatal(err)
	}
	clone = tr.Clone()
	t.Cleanup(tr.CloseIdleConnections)
	t.Cleanup(clone.CloseIdleConnections)
	return tr, clone
}

// TestCloneVerifiesForItself: of a configured http.Transport and its clone one verifies the server's certificate and the other does
// not. The one that does never uses a connection that the other has made.
func TestCloneVerifiesForItself(t *testing.T) {
	for _, careless := range []string{"the original", "the clone"} {
		t.Run(careless, func(t *testing.T) {
			o := startOrigin(t, true, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			verifies, other := cloned(t, true)
			if careless == "the original" {
				verifies, other = other, verifies
			}
			other.TLSClientConfig.InsecureSkipVerify = true
			req, _ := http.NewRequest("GET", o.url, nil)
			mustRoundTrip(t, other, req)
			req, _ = http.NewRequest("GET", o.url, nil)
			if resp, err := verifies.RoundTrip(req); err == nil {
				resp.Body.Close()
				t.Error("a request was sent on a connection that was not verified")
			}
		})
	}
}

// TestCloneHasItsOwnSettings: what is set of a clone that is not configured itself counts for its requests, which net/http sends over
// HTTP/2 on connections of its own.
func TestCloneHasItsOwnSettings(t *testing.T) {
	for name, overTLS := range map[string]bool{"h2c": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			type seen struct {
				proto, encoding string
				from            any
			}
			requests := make(chan seen, 1)
			o := startOrigin(t, overTLS, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/never" {
					<-r.Context().Done()
					return
				}
				requests <- seen{r.Proto, r.Header.Get("Accept-Encoding"), r.Context().Value(connNumber{})}
			}))
			tr, clone := cloned(t, overTLS)
			for _, tr := range []*http.Transport{tr, clone} {
				tr.TLSClientConfig.InsecureSkipVerify = true
			}
			clone.DisableCompression = true
			clone.ResponseHeaderTimeout = time.Millisecond
			get := func(rt http.RoundTripper) seen {
				t.Helper()
				req, _ := http.NewRequest("GET", o.url, nil)
				mustRoundTrip(t, rt, req)
				return <-requests
			}
			original := get(tr)
			if original.proto != "HTTP/2.0" || original.encoding != "gzip" {
				t.Errorf("of the original: %v", original)
			}
			req, _ := http.NewRequest("GET", o.url+"/never", nil)
			if resp, err := clone.RoundTrip(req); err == nil {
				resp.Body.Close()
				t.Error("the clone's ResponseHeaderTimeout did not pass")
			} else if !isTimeout(err) {
				t.Errorf("the clone's error: %v", err)
			}
			another := clone.Clone()
			another.ResponseHeaderTimeout = 0
			t.Cleanup(another.CloseIdleConnections)
			if got := get(another); got.proto != "HTTP/2.0" || got.encoding != "" || got.from == original.from {
				t.Errorf("of a clone: %v; of the original: %v", got, original)
			}
			if again := get(tr); again != original {
				t.Errorf("of the original %v, then %v", original, again)
			}
		})
	}
}

// TestCloneIsConfigured: a clone of a configured http.Transport can be configured, and then has connections and
// settings of its own.
func TestCloneIsConfigured(t *testing.T) {
	o := startOrigin(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	tr := &http.Transport{DialContext: dialer(t), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	conf := &h2http.Config{Pool: drainedPool(t)}
	if err := h2http.ConfigureTransport(tr, conf); err != nil {
		t.Fatal(err)
	}
	clone := tr.Clone()
	if err := h2http.ConfigureTransport(clone, conf); err != nil {
		t.Fatal(err)
	}
	clone.TLSClientConfig.InsecureSkipVerify = false
	for _, tr := range []*http.Transport{tr, clone} {
		defer tr.CloseIdleConnections()
		req, _ := http.NewRequest("GET", o.url, nil)
		resp, err := tr.RoundTrip(req)
		if tr == clone {
			if err == nil {
				resp.Body.Close()
				t.Error("the clone used a connection that it had not verified")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

// TestOwnProtocolsAreRefused: an http.Transport whose clones would share protocols is not configured.
func TestOwnProtocolsAreRefused(t *testing.T) {
	next := func(string, *tls.Conn) http.RoundTripper { return nil }
	for name, c := range map[string]struct {
		protos map[string]func(string, *tls.Conn) http.RoundTripper
		before func(*http.Transport)
		ok     bool
	}{
		"HTTP/2":      {map[string]func(string, *tls.Conn) http.RoundTripper{"h2": next}, nil, false},
		"another":     {map[string]func(string, *tls.Conn) http.RoundTripper{"another": next}, nil, false},
		"empty":       {map[string]func(string, *tls.Conn) http.RoundTripper{}, nil, true},
		"empty, used": {map[string]func(string, *tls.Conn) http.RoundTripper{}, (*http.Transport).CloseIdleConnections, false},
		"nil, used":   {nil, (*http.Transport).CloseIdleConnections, false}, // net/http has set it
	} {
		t.Run(name, func(t *testing.T) {
			tr := &http.Transport{TLSNextProto: c.protos}
			if c.before != nil {
				c.before(tr)
			}
			if err := h2http.ConfigureTransport(tr, nil); (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
			if c.ok && tr.Clone().TLSNextProto != nil {
				t.Error("a clone shares the protocols")
			}
		})
	}
}
