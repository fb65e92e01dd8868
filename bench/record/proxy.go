package main

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/adapt"
)

// runProxy records a reverse proxy of net/http that copies answers through the recorder's buffers and keeps each
// request's body in one of its exact size, so that it could send it to a second backend.
func runProxy(r *recorder, gets int) (string, error) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, _ := strconv.Atoi(req.URL.Query().Get("n"))
		io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Write(make([]byte, n))
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(pr *httputil.ProxyRequest) { pr.SetURL(target); pr.Out.URL.RawQuery = pr.In.URL.RawQuery },
		BufferPool: proxyBuffers{r, adapt.HTTPUtil(r.pool, 0)},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength > 0 {
			body := r.Get(int(req.ContentLength))
			defer r.Put(body)
			if _, err := io.ReadFull(req.Body, *body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(*body))
		}
		proxy.ServeHTTP(w, req)
	}))
	defer front.Close()

	err = drive(r, gets, func(rng *rand.Rand) error {
		var body io.Reader
		if n := rng.IntN(3); n > 0 {
			body = bytes.NewReader(make([]byte, logNormal(rng, 3000, 1.6, 1<<20)))
		}
		resp, err := front.Client().Post(front.URL+"/?n="+strconv.Itoa(logNormal(rng, 12000, 1.8, 4<<20)), "application/octet-stream", body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
	return "net/http reverse proxy: answers copied through 32 KiB buffers, request bodies kept at their exact size; 8 clients", err
}

// proxyBuffers is an httputil.BufferPool of 32 KiB buffers.
type proxyBuffers struct {
	r    *recorder
	from *adapt.HTTPUtilPool
}

func (p proxyBuffers) Get() []byte {
	b := p.from.Get()
	p.r.lent(b)
	return b
}

func (p proxyBuffers) Put(b []byte) {
	p.r.back(b)
	p.from.Put(b)
}

// drive runs eight clients, each with different sizes, until enough gets were recorded.
func drive(r *recorder, gets int, request func(*rand.Rand) error) error {
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for client := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(client, 1))
			for failed.Load() == nil && !r.enough(gets) {
				if err := request(rng); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// enough reports whether so many gets were noted.
func (r *recorder) enough(gets int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gets >= gets
}

// logNormal draws a size from a log-normal distribution, as those of web and RPC payloads are: median in bytes, sigma
// of the logarithm, bounded by 1 and most.
func logNormal(rng *rand.Rand, median, sigma float64, most int) int {
	return min(max(int(median*math.Exp(sigma*rng.NormFloat64())), 1), most)
}
