package h2http_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/h2http"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes {
	return &pipes{make(chan net.Conn), make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.closed:
		return nil, errors.New("closed")
	}
}

// TestReadAfterClose: reading a closed body returns net/http's error for it, of requests and of responses, decompressed ones too.
func TestReadAfterClose(t *testing.T) {
	read := func(what string, b io.ReadCloser) {
		b.Close()
		if _, err := b.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Errorf("%s: %v", what, err)
		}
	}
	h := func(w http.ResponseWriter, r *http.Request) {
		read("request", r.Body)
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		io.WriteString(w, "content")
	}
	each(t, func(t *testing.T, s stack) {
		if !s.own {
			return // net/http's HTTP/2 has errors of its own
		}
		r := s.start(t, http.HandlerFunc(h))
		rt := ownTransport(t, &clientSetup{dial: r.dial})
		for _, path := range []string{"/", "/gzip"} {
			req, _ := http.NewRequest("POST", r.url+path, strings.NewReader("content"))
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read("response of "+path, resp.Body)
		}
	})
}

// TestCloseWhileReading: Close ends a Read of another goroutine, of a decompressed response, too; without a race, as with net/http.
func TestCloseWhileReading(t *testing.T) {
	var member bytes.Buffer
	zw := gzip.NewWriter(&member)
	io.WriteString(zw, "content")
	zw.Flush()
	for _, encoding := range []string{"identity", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			eachClient(t, func(t *testing.T, s clientStack) {
				o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", encoding)
					if encoding == "gzip" {
						w.Write(member.Bytes())
					} else {
						io.WriteString(w, "content")
					}
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}))
				req, _ := http.NewRequest("GET", o.url, nil)
				resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, len("content"))
				if _, err := io.ReadFull(resp.Body, b); err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() {
					_, err := resp.Body.Read(b)
					done <- err
				}()
				resp.Body.Close()
				if err := <-done; err == nil || err == io.EOF {
					t.Errorf("Read: %v", err)
				}
				if _, err := resp.Body.Read(b); err == nil || err == io.EOF {
					t.Errorf("Read after Close: %v", err)
				}
			})
		})
	}
}

// workerStacks returns how many goroutines of the test's bubble run or wait for handlers.
func workerStacks() (n int) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "synctest bubble") && strings.Contains(g, "/internal/workers.") {
			n++
		}
	}
	return n
}

// TestEndLeavesNoWorkers ends servers in every way while handlers run and others wait for requests: when
// the last handler has returned, no goroutine is left, and none before that but the handlers'.
func TestEndLeavesNoWorkers(t *testing.T) {
	const handlers = 8
	for _, end := range []struct {
		name string
		end  func(*h2http.Server) error
	}{
		{"Close", (*h2http.Server).Close},
		{"Shutdown", func(srv *h2http.Server) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := srv.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				return errors.New("Shutdown did not wait for handlers")
			}
			return srv.Close()
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				srv, err := h2http.NewServer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/blocked" {
						<-release
					}
				})}, nil)
				if err != nil {
					t.Fatal(err)
				}
				l := newPipes()
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				tr := &h2http.Transport{DialContext: l.dial}
				get := func(path string) {
					if resp, err := (&http.Client{Transport: tr}).Get("http://pipe" + path); err == nil {
						resp.Body.Close()
					}
				}
				for range handlers {
					go get("/blocked")
				}
				synctest.Wait()
				go get("/") // another goroutine's, which then waits for requests
				synctest.Wait()
				if n := workerStacks(); n <= handlers {
					t.Errorf("%d goroutines of handlers while %d run; some must wait for requests", n, handlers)
				}
				if err := end.end(srv); err != nil {
					t.Error(err)
				}
				<-served
				synctest.Wait()
				if n := workerStacks(); n != handlers {
					t.Errorf("%d goroutines of handlers after the server's end; %d run", n, handlers)
				}
				close(release)
				synctest.Wait()
				if n := workerStacks(); n > 0 {
					t.Errorf("%d goroutines of handlers are left", n)
				}
			})
		})
	}
}

// lateListener is a listener that returns one connection after Close.
type lateListener struct {
	*pipes
	conn chan net.Conn
}

func (l lateListener) Accept() (net.Conn, error) {
	if nc, err := l.pipes.Accept(); err == nil {
		return nc, nil
	}
	if nc, ok := <-l.conn; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}

// TestConnectionAcceptedWhileClosing: a connection that the listener returns when the server has been closed is closed.
func TestConnectionAcceptedWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		l := lateListener{newPipes(), make(chan net.Conn, 1)}
		srv := &http.Server{Handler: http.NotFoundHandler()}
		served := make(chan error)
		go func() { served <- h2http.Serve(l, srv) }()
		synctest.Wait()
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
		l.conn <- b
		close(l.conn)
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is open")
		}
	})
}
