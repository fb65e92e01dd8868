package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/selfsigned"
)

const (
	http2Conns   = 4
	http2Streams = 32
)

// http2Load is one contestant of an HTTP/2 case: run makes n requests and returns the
// processor time of the process under test.
type http2Load struct {
	name string
	kind Kind
	run  func(ctx context.Context, n int) (time.Duration, error)
}

// runHTTP2 measures servers with h2load, if it is installed, and clients.
func runHTTP2(ctx context.Context, s *session) ([]Case, error) {
	if cputime.Used() == 0 {
		return nil, nil // the processor time of a process cannot be read on this system
	}
	// Idle connections are measured first: after a load the runtime starts goroutines with larger stacks.
	var idle Case
	if s.allCases {
		var err error
		if idle, err = s.idleConns(ctx); err != nil {
			return nil, err
		}
	}
	var cases []Case
	// A turn has more requests than there are streams, so that all are in use for most of it.
	for _, w := range []http2Work{
		{size: 100, requests: 8000}, {size: 100, requests: 8000, security: overTLS}, {size: 16 << 10, requests: 2500},
		{size: 16 << 10, requests: 2500, security: overTLS}, {size: 1 << 20, requests: 320}, {size: 1 << 20, requests: 320, security: overTLS},
		{size: 1 << 20, requests: 320, source: fromFile},
	} {
		if !s.allCases && (w.size != 100 || w.security != unencrypted) {
			continue
		}
		w.requests = s.scaled(w.requests)
		c, err := s.http2Servers(ctx, w)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	c, err := s.http2Clients(ctx, 100, s.scaled(8000))
	if err != nil {
		return nil, err
	}
	cases = append(cases, c)
	if c, err = s.uploads(ctx, 0); err != nil {
		return nil, err
	}
	cases = append(cases, c)
	if !s.allCases {
		return cases, nil
	}
	if c, err = s.uploads(ctx, 10*time.Millisecond); err != nil {
		return nil, err
	}
	return append(cases, c, idle), nil
}

// scaled returns the number of requests for the plan's length.
func (p plan) scaled(n int) int {
	if p.allCases {
		return n
	}
	return n / 8
}

// http2Work is the work of servers in one case.
type http2Work struct {
	size     int // of a response
	requests int // of a turn
	security security
	source   source
}

// source is where a server gets a response's content.
type source uint8

const (
	fromMemory source = iota
	fromFile          // by http.ServeFile
)

func (s source) String() string {
	if s == fromFile {
		return " from a file"
	}
	return ""
}

// security is whether a case uses TLS.
type security uint8

const (
	unencrypted security = iota
	overTLS
)

func (s security) String() string {
	if s == overTLS {
		return ", TLS"
	}
	return ""
}

// http2Servers compares servers of HTTP/2 that do the work w.
func (s *session) http2Servers(ctx context.Context, w http2Work) (Case, error) {
	h2load, _ := exec.LookPath("h2load")
	path := strconv.Itoa(w.size)
	if w.source == fromFile {
		file, err := zeroFile(w.size)
		if err != nil {
			return Case{}, err
		}
		defer os.Remove(file)
		path = "file?name=" + url.QueryEscape(file)
	}
	var loads []http2Load
	add := func(name string, kind Kind, url string, used func() time.Duration) {
		loads = append(loads, http2Load{name, kind, func(ctx context.Context, n int) (time.Duration, error) {
			before := used()
			if err := drive2(ctx, h2load, url, w.size, n); err != nil {
				return 0, err
			}
			return used() - before, nil
		}})
	}
	for _, c := range []struct {
		name  string
		kind  Kind
		serve func(srv *http.Server, l net.Listener, sec security) error
	}{{"net/http", Peer, serveNetHTTP}, {"tarn", Tarn, serveH2HTTP}} {
		srv, err := startHTTP2(c.serve, w.security, http.HandlerFunc(sendMemory))
		if err != nil {
			return Case{}, err
		}
		defer srv.Close()
		add(c.name, c.kind, srv.url+"/"+path, cputime.Used)
	}
	note := "Processor time of the server's process; h2load is the client."
	if h2load == "" {
		note = "Processor time of client and server together, h2http being the client: h2load is not installed."
	} else if n, err := startNginx(w.size, w.security); err == nil {
		defer n.close()
		add("nginx", Peer, n.url, n.processorTime)
	} else {
		note += " nginx is left out: " + err.Error() + "."
	}
	title := fmt.Sprintf("HTTP/2 server, responses of %s%v%v, %d streams on each of %d connections", sizeName(w.size), w.source, w.security, http2Streams, http2Conns)
	c, err := s.runHTTP2Loads(ctx, title, w.requests, loads)
	c.Note = note
	return c, err
}

// zeroFile makes a file of size bytes in the directory for temporary ones.
func zeroFile(size int) (string, error) {
	f, err := os.CreateTemp("", "tarn-bench-file")
	if err != nil {
		return "", err
	}
	if _, err := f.Write(zeros[:size]); err != nil {
		f.Close()
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), f.Close()
}

func serveNetHTTP(srv *http.Server, l net.Listener, sec security) error {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	if sec == overTLS {
		return srv.ServeTLS(l, "", "")
	}
	return srv.Serve(l)
}

func serveH2HTTP(srv *http.Server, l net.Listener, sec security) error {
	if sec == overTLS {
		return h2http.ServeTLS(l, srv, "", "")
	}
	return h2http.Serve(l, srv)
}

// http2Server is a server in this process.
type http2Server struct {
	*http.Server
	addr, url string
}

func startHTTP2(serve func(*http.Server, net.Listener, security) error, sec security, h http.Handler) (*http2Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h, ErrorLog: quiet(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 2 * http2Streams}}
	url := "http://" + l.Addr().String()
	if sec == overTLS {
		url = "https://" + l.Addr().String()
		cert, err := selfsigned.New()
		if err != nil {
			return nil, err
		}
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	go serve(srv, l, sec) // ends with Close
	return &http2Server{srv, l.Addr().String(), url}, nil
}

// sendMemory answers /N with N bytes in one Write, and /file with the file in name.
func sendMemory(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/file" {
		http.ServeFile(w, r, r.FormValue("name"))
		return
	}
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil || n < 0 || n > len(zeros) {
		http.NotFound(w, r)
		return
	}
	w.Write(zeros[:n])
}

// zeros is the content that servers send.
var zeros = make([]byte, 1<<20)

var succeeded = regexp.MustCompile(`(\d+) succeeded`)

// drive2 makes n requests for size bytes, by h2load if there is one.
func drive2(ctx context.Context, h2load, url string, size, n int) error {
	if h2load == "" {
		rt := &h2http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer rt.CloseIdleConnections()
		return requests(ctx, rt, url, size, n)
	}
	out, err := exec.CommandContext(ctx, h2load, "-n", strconv.Itoa(n), "-c", strconv.Itoa(http2Conns), "-m", strconv.Itoa(http2Streams), "-t", "1", url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("h2load: %w\n%s", err, out)
	}
	if m := succeeded.FindSubmatch(out); m == nil || string(m[1]) != strconv.Itoa(n) {
		return fmt.Errorf("h2load: not all of %d requests succeeded\n%s", n, out)
	}
	return nil
}

// requests makes n requests for size bytes by rt, as many at a time as h2load does.
func requests(ctx context.Context, rt http.RoundTripper, url string, size, n int) error {
	const callers = http2Conns * http2Streams
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			for range n/callers + min(1, max(0, n%callers-i)) {
				if err := request(ctx, rt, url, size); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range callers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func request(ctx context.Context, rt http.RoundTripper, url string, size int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%d bytes of %d arrived", n, size)
	}
	return err
}

// http2Clients compares clients that ask nginx, or if there is none a server in this
// process, for size bytes.
func (s *session) http2Clients(ctx context.Context, size, n int) (Case, error) {
	note := "Processor time of the client's process; nginx is the server."
	url := ""
	if nginx, err := startNginx(size, unencrypted); err == nil {
		defer nginx.close()
		url = nginx.url
	} else {
		srv, err := startHTTP2(serveH2HTTP, unencrypted, http.HandlerFunc(sendMemory))
		if err != nil {
			return Case{}, err
		}
		defer srv.Close()
		url = fmt.Sprintf("%s/%d", srv.url, size)
		note = "Processor time of client and server together: nginx is not installed."
	}
	netHTTP := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	netHTTP.Protocols.SetUnencryptedHTTP2(true)
	defer netHTTP.CloseIdleConnections()
	own := &h2http.Transport{DisableCompression: true}
	defer own.CloseIdleConnections()
	var loads []http2Load
	for _, c := range []struct {
		name string
		kind Kind
		rt   http.RoundTripper
	}{{"net/http", Peer, netHTTP}, {"tarn", Tarn, own}} {
		loads = append(loads, http2Load{c.name, c.kind, func(ctx context.Context, n int) (time.Duration, error) {
			before := cputime.Used()
			err := requests(ctx, c.rt, url, size, n)
			return cputime.Used() - before, err
		}})
	}
	c, err := s.runHTTP2Loads(ctx, fmt.Sprintf("HTTP/2 client, responses of %s, %d callers", sizeName(size), http2Conns*http2Streams), n, loads)
	c.Note = note
	return c, err
}

// runHTTP2Loads measures loads alternately, n requests a turn, and reports medians.
func (s *session) runHTTP2Loads(ctx context.Context, title string, n int, loads []http2Load) (Case, error) {
	c := Case{Title: title, Metrics: []Metric{{"cpu", "processor time/req", Nanoseconds, Lower}, {"rate", "req/s", Count, Higher}}}
	used, rates := make([][]float64, len(loads)), make([][]float64, len(loads))
	for round := range s.loadRounds + 1 {
		for _, i := range inTurn(round, len(loads)) {
			l := loads[i]
			s.progress.step("%s: %s (%d of %d)", title, l.name, round, s.loadRounds)
			runtime.GC() // otherwise a client in this process would collect its predecessor's garbage while it is measured
			start := time.Now()
			d, err := l.run(ctx, n)
			if err != nil {
				return c, fmt.Errorf("%s: %s: %w", strings.ToLower(title[:1])+title[1:], l.name, err)
			}
			if round == 0 {
				continue // warming up
			}
			used[i] = append(used[i], float64(d)/float64(n))
			rates[i] = append(rates[i], float64(n)/time.Since(start).Seconds())
		}
	}
	for i, l := range loads {
		c.Rows = append(c.Rows, Row{Name: l.name, Kind: l.kind, Turns: used[i], Values: map[string]float64{"cpu": median(used[i]), "rate": median(rates[i])}})
	}
	c.compare()
	return c, nil
}
