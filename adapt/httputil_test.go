package adapt

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
)

func TestHTTPUtilGetPut(t *testing.T) {
	p := tarntest.NewPool(t)
	for _, c := range []struct{ size, want int }{{0, defaultHTTPUtilSize}, {1, 1}, {100, 100}, {64 << 10, 64 << 10}} {
		h := HTTPUtil(p, c.size)
		b := h.Get()
		if len(b) != c.want {
			t.Errorf("HTTPUtil(p, %d) gave %d bytes", c.size, len(b))
		}
		fill(b, 1)
		h.Put(b)
		b = h.Get()
		h.Put(b[:0])
		b = h.Get()
		h.Put(b[: len(b)/2 : len(b)/2+1])
	}
}

func TestHTTPUtilRefusesForeign(t *testing.T) {
	p := refusals(t, 6)
	h, other := HTTPUtil(p, 4096), HTTPUtil(p, 4096)
	h.Put(nil)
	h.Put([]byte{})
	h.Put(make([]byte, 4096))
	b := h.Get()
	h.Put(b[1:])
	h.Put(b[len(b):])
	c := other.Get()
	h.Put(c) // from the same pool, through another adapter
	other.Put(c)
	h.Put(b)
}

func TestHTTPUtilRefusesDoublePut(t *testing.T) {
	h := HTTPUtil(refusals(t, 1), 4096)
	b := h.Get()
	h.Put(b)
	h.Put(b)
	c, d := h.Get(), h.Get()
	if &c[0] == &d[0] {
		t.Fatal("one piece of memory has two holders")
	}
	h.Put(c)
	h.Put(d)
}

func TestHTTPUtilConcurrently(t *testing.T) {
	h := HTTPUtil(tarntest.NewPool(t), 4096)
	hammer(t, func(int) func(*testing.T, byte) {
		b := h.Get()
		return func(t *testing.T, seed byte) {
			if t == nil {
				fill(b, seed)
				return
			}
			check(t, b, seed)
			h.Put(b)
		}
	})
}

func TestHTTPUtilAllocatesNothing(t *testing.T) {
	h := HTTPUtil(steadyPool(t), 0)
	noAllocs(t, func() { h.Put(h.Get()) })
}

// TestHTTPUtilInAReverseProxy: every buffer is freed, the one of a broken transfer too.
func TestHTTPUtilInAReverseProxy(t *testing.T) {
	body := bytes.Repeat([]byte("tarn"), 50_000)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(body[:len(body)/2])
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		w.Write(body[len(body)/2:])
	}))
	target, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	rp := httputil.NewSingleHostReverseProxy(target)
	rp.BufferPool = HTTPUtil(tarntest.NewPool(t), 0)
	proxy := httptest.NewServer(rp)
	t.Cleanup(func() { // before the pool is looked at: cleanups run last in, first out
		proxy.Close()
		origin.Close()
	})
	for _, path := range []string{"/", "/broken", "/"} {
		resp, err := http.Get(proxy.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if whole := err == nil && bytes.Equal(got, body); whole == (path == "/broken") {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
}
