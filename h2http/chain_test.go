package h2http_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
)

// TestChains echoes a body with BodyChain, WriteChain and ResponseChain, and compares what comes back. It does not
// count the bytes that are copied.
func TestChains(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var c tarn.Chain
				for {
					err := h2http.BodyChain(r, &c)
					if err == io.EOF {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if err := h2http.WriteChain(w, &c); err != nil || c.Len() > 0 {
						t.Errorf("WriteChain: %v, %d bytes are left", err, c.Len())
					}
				}
			}))
			rt := &h2http.Transport{DialContext: dialer(t), TLSClientConfig: r.client.Transport.(*http.Transport).TLSClientConfig, Config: h2http.Config{Pool: drainedPool(t)}}
			t.Cleanup(rt.CloseIdleConnections)
			want := bytes.Repeat([]byte("0123456789abcdef"), 40000)
			resp, err := (&http.Client{Transport: rt}).Post(r.url, "", bytes.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var c tarn.Chain
			defer func() { c.Free() }()
			for err == nil {
				err = h2http.ResponseChain(resp, &c)
			}
			if err != io.EOF {
				t.Error(err)
			}
			var got bytes.Buffer
			c.WriteTo(&got)
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d bytes of %d came back", got.Len(), len(want))
			}
		})
	}
}

// TestChainsOutliveTheExchange keeps references beyond the handler's end and the
// connection's.
func TestChainsOutliveTheExchange(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			kept := make(chan tarn.Chain, 1)
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var c tarn.Chain
				for h2http.BodyChain(r, &c) == nil {
				}
				kept <- c
			}))
			resp, err := r.client.Post(r.url, "", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			r.client.CloseIdleConnections()
			c := <-kept
			defer c.Free()
			if b, err := io.ReadAll(&c); string(b) != "hello" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

func TestChainsOfOthers(t *testing.T) {
	var c tarn.Chain
	r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	if err := h2http.BodyChain(r, &c); !errors.Is(err, h2http.ErrNotOurs) {
		t.Errorf("BodyChain: %v", err)
	}
	r = httptest.NewRequest("GET", "/", nil)
	if err := h2http.BodyChain(r, &c); err != io.EOF {
		t.Errorf("BodyChain without content: %v", err)
	}
	c.Append(tarn.Shared().Copy([]byte("x")))
	if err := h2http.WriteChain(httptest.NewRecorder(), &c); !errors.Is(err, h2http.ErrNotOurs) || c.Len() != 0 {
		t.Errorf("WriteChain: %v, %d bytes are left", err, c.Len())
	}
}

// TestWrappedBodies: a response that was decompressed, or that a client with a Timeout has returned, has another type's body:
// ResponseChain returns ErrNotOurs, and io.Copy copies it.
func TestWrappedBodies(t *testing.T) {
	want := text(100000)
	r := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			io.WriteString(w, want)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, want)
		z.Close()
	}))
	rt := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: drainedPool(t)}}
	t.Cleanup(rt.CloseIdleConnections)
	for name, get := range map[string]func() (*http.Response, error){
		"decompressed": func() (*http.Response, error) { return (&http.Client{Transport: rt}).Get(r.url) },
		"with Timeout": func() (*http.Response, error) {
			return (&http.Client{Transport: rt, Timeout: time.Hour}).Get(r.url + "/plain")
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := get()
			if err != nil {
				t.Fatal(err)
			}
			var c tarn.Chain
			if err := h2http.ResponseChain(resp, &c); !errors.Is(err, h2http.ErrNotOurs) {
				t.Errorf("ResponseChain: %v", err)
			}
			front := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer resp.Body.Close()
				if n, err := io.Copy(w, resp.Body); n != int64(len(want)) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}))
			got, err := front.client.Get(front.url)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			if b, err := io.ReadAll(got.Body); string(b) != want || err != nil {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// TestCopyOfAResponseByReference is io.Copy from this package's client to its server: it compares what arrives, and does
// not count the bytes that are copied.
func TestCopyOfAResponseByReference(t *testing.T) {
	want := text(300000)
	back := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, want) }))
	rt := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: drainedPool(t)}}
	t.Cleanup(rt.CloseIdleConnections)
	front := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), "GET", back.url, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if n, err := io.Copy(w, resp.Body); n != int64(len(want)) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}))
	resp, err := front.client.Get(front.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestReceivedBodyOfAnotherLength: a body that was received here and is sent on as that of a request fails where it is not as long as
// the request's ContentLength, as any other.
func TestReceivedBodyOfAnotherLength(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					w.Write(make([]byte, 5000))
				}
				io.Copy(io.Discard, r.Body)
			}))
			rt := &h2http.Transport{DialContext: dialer(t), TLSClientConfig: r.client.Transport.(*http.Transport).TLSClientConfig, Config: h2http.Config{Pool: drainedPool(t)}}
			t.Cleanup(rt.CloseIdleConnections)
			for _, length := range []int64{4999, 5000, 5001} {
				got, err := (&http.Client{Transport: rt}).Get(r.url)
				if err != nil {
					t.Fatal(err)
				}
				req, _ := http.NewRequest("POST", r.url, got.Body)
				req.ContentLength = length
				resp, err := rt.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if length == 5000 && err != nil || length != 5000 && (err == nil || !strings.Contains(err.Error(), "ContentLength")) { // not the server's reset
					t.Errorf("with ContentLength %d for 5000 bytes: %v", length, err)
				}
			}
		})
	}
}
