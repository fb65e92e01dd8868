package bench

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
)

// copySize is the length in bytes of the buffers that httputil.ReverseProxy copies with.
const copySize = 32 << 10

// runHTTP measures HTTP/2 servers and clients, and then drives a client through a net/http reverse proxy to a server. Only the proxy's BufferPool
// differs between contestants.
func runHTTP(ctx context.Context, s *session) ([]Case, error) {
	cases, err := runHTTP2(ctx, s)
	if err != nil {
		return nil, err
	}
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "tarn bench http"})
	if err != nil {
		return nil, err
	}
	origin, err := serveHTTP(http.HandlerFunc(sendBody))
	if err != nil {
		return nil, err
	}
	defer origin.Close()
	var proxies []*httpProxy
	for _, p := range []struct {
		name string
		kind Kind
		pool httputil.BufferPool
	}{
		{"default", Peer, nil},
		{"sync.Pool", Peer, &syncHTTPPool{newSyncPool(copySize)}},
		{"tarn", Tarn, adapt.HTTPUtil(pool, copySize)},
	} {
		proxy, err := newHTTPProxy(origin.url, p.pool, s.callers)
		if err != nil {
			return nil, err
		}
		defer proxy.close()
		proxy.name, proxy.kind = p.name, p.kind
		proxies = append(proxies, proxy)
	}
	for _, size := range s.some([]int{1 << 10, 64 << 10, 1 << 20}) {
		var loads []load
		for _, p := range proxies {
			loads = append(loads, load{p.name, p.kind, p.fetch(size)})
		}
		c, err := s.runLoads(ctx, fmt.Sprintf("Reverse proxy, responses of %s, %d clients", sizeName(size), s.callers), loads)
		if err != nil {
			return nil, err
		}
		c.Note = "Client, proxy and server share the process: figures are those of all three."
		cases = append(cases, c)
	}
	return cases, nil
}

// syncHTTPPool is a sync.Pool of slices, as programs commonly implement httputil.BufferPool.
type syncHTTPPool struct {
	pool interface {
		Get() any
		Put(any)
	}
}

func (p *syncHTTPPool) Get() []byte  { return *p.pool.Get().(*[]byte) }
func (p *syncHTTPPool) Put(b []byte) { p.pool.Put(&b) }

// sendBody answers /N with N bytes.
func sendBody(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil || n < 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.Header().Set("Content-Type", "application/octet-stream")
	for n > 0 {
		sent, err := io.WriteString(w, filler[:min(n, len(filler))])
		if err != nil {
			return // the client has closed the connection
		}
		n -= sent
	}
}

type httpServer struct {
	*http.Server
	url *url.URL
}

// serveHTTP serves h on a free port of the loopback interface until Close.
func serveHTTP(h http.Handler) (*httpServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &httpServer{&http.Server{Handler: h, ErrorLog: quiet()}, &url.URL{Scheme: "http", Host: l.Addr().String()}}
	go s.Serve(l) // ends with Close
	return s, nil
}

// quiet discards the log of servers whose connections are closed when the measurement ends.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

type httpProxy struct {
	name   string
	kind   Kind
	server *httpServer
	out    *http.Transport // from the proxy to the origin
	in     *http.Transport // from the clients to the proxy
	bufs   [][]byte        // by caller
}

func newHTTPProxy(origin *url.URL, pool httputil.BufferPool, callers int) (*httpProxy, error) {
	p := &httpProxy{
		out: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
		in:  &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
	}
	for range callers {
		p.bufs = append(p.bufs, make([]byte, 256<<10))
	}
	var err error
	p.server, err = serveHTTP(&httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(origin) },
		Transport:  p.out,
		BufferPool: pool,
		ErrorLog:   quiet(),
	})
	return p, err
}

func (p *httpProxy) close() {
	p.in.CloseIdleConnections()
	p.server.Close()
	p.out.CloseIdleConnections()
}

// fetch returns a call that gets size bytes through the proxy.
func (p *httpProxy) fetch(size int) func(context.Context, int) error {
	target := p.server.url.JoinPath(strconv.Itoa(size)).String()
	client := &http.Client{Transport: p.in}
	return func(ctx context.Context, caller int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n := 0
		for err == nil {
			var m int
			m, err = resp.Body.Read(p.bufs[caller])
			n += m
		}
		if err != io.EOF {
			return err
		}
		if n != size || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d bytes of %d arrived, status %s", n, size, resp.Status)
		}
		return nil
	}
}
