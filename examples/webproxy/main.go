// Command webproxy is a reverse proxy that forwards bodies without copying
// them: it passes received data to the other side by reference. Both sides
// use HTTP/2. With -copy it is net/http's httputil.ReverseProxy on the same
// server and client, for comparison.
//
//	webproxy -listen 127.0.0.1:8080 -backend http://127.0.0.1:8081
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"

	"github.com/tarn-go/tarn/h2http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	backend := flag.String("backend", "", "URL to forward to")
	copying := flag.Bool("copy", false, "use httputil.ReverseProxy")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once, whatever requests go on
	target, err := parseBackend(*backend)
	if err == nil {
		h := forwardTo(target, new(h2http.Transport))
		if *copying {
			h = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: new(h2http.Transport)}
		}
		err = run(ctx, *listen, h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "webproxy:", err)
		os.Exit(1)
	}
}

// parseBackend returns the URL of a server: a path of its own would be lost.
func parseBackend(backend string) (*url.URL, error) {
	u, err := url.Parse(backend)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("-backend %q: want http://HOST:PORT or https://HOST:PORT", backend)
	}
	return u, nil
}

// run serves h until ctx ends.
func run(ctx context.Context, listen string, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s, err := h2http.NewServer(&http.Server{Handler: h}, nil)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	done := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { done <- s.Shutdown(context.Background()) })()
	if err := s.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return <-done
}
