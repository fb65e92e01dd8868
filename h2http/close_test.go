package h2http_test

import (
	"context"
	"errors"
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
		end  func(*http.Server) error
	}{
		{"Close", (*http.Server).Close},
		{"Shutdown", func(srv *http.Server) error {
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
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/blocked" {
						<-release
					}
				})}
				l := newPipes()
				served := make(chan error, 1)
				go func() { served <- h2http.Serve(l, srv) }()
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
	<-l.closed
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
