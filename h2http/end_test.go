package h2http_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// step is something that happens to a server with a request.
type step string

const (
	shutDown        step = "Shutdown"
	shutDownAtOnce  step = "Shutdown with a context that has ended"
	closeServer     step = "Close"
	handlerReturns  step = "the handler returns"
	untilNothingNew      = 20 * time.Second // after it a server waits for its handlers and callers alone
)

// orders returns every sequence of up to n steps in which the handler returns once at most.
func orders(n int) (all [][]step) {
	last := [][]step{nil}
	for range n {
		var next [][]step
		for _, o := range last {
			for _, s := range []step{shutDown, shutDownAtOnce, closeServer, handlerReturns} {
				if s == handlerReturns && strings.Contains(fmt.Sprint(o), string(s)) {
					continue
				}
				next = append(next, append(o[:len(o):len(o)], s))
			}
		}
		all = append(all, next...)
		last = next
	}
	return all
}

// attempt is a call of which the outcome may be seen later.
type attempt struct {
	name   string
	result chan string
	got    string
}

func begin(name string, f func() string) *attempt {
	a := &attempt{name: name, result: make(chan string, 1)}
	go func() { a.result <- f() }()
	return a
}

func (a *attempt) String() string {
	select {
	case a.got = <-a.result:
	default:
	}
	if a.got == "" {
		return a.name + ": running"
	}
	return a.name + ": " + a.got
}

// ask makes a request and says how it ended.
func ask(c *http.Client, url string) string {
	resp, err := c.Get(url)
	if err != nil {
		return "failed"
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "whole" || err != nil {
		return "failed"
	}
	return "answered"
}

// clientOver returns a client that uses one protocol without TLS.
func clientOver(l *pipes, http2 bool) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: l.dial}
	tr.Protocols.SetUnencryptedHTTP2(http2)
	tr.Protocols.SetHTTP1(!http2)
	return &http.Client{Transport: tr}
}

// TestOrdersOfTheEnd: Shutdown, Close, and the end of a handler, in every order, return and do to a request what they do in net/http.
func TestOrdersOfTheEnd(t *testing.T) {
	// run returns what has ended after each step.
	run := func(t *testing.T, s stack, http2 bool, steps []step) string {
		var out strings.Builder
		synctest.Test(t, func(t *testing.T) {
			l := newPipes()
			release := make(chan struct{})
			r := s.startOn(t, l, l.dial, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "who")
				w.(http.Flusher).Flush()
				select {
				case <-release:
					io.WriteString(w, "le")
				case <-r.Context().Done():
				}
			}), h2.Limits{})
			c := clientOver(l, http2)
			seen := []*attempt{begin("the request", func() string { return ask(c, r.url) })}
			synctest.Wait()
			for i, st := range steps {
				fmt.Fprintf(&out, "%s\n", st)
				switch st {
				case shutDown, shutDownAtOnce:
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if st == shutDownAtOnce {
						cancel()
					}
					idle := http2 && i == 1 && steps[0] == handlerReturns
					seen = append(seen, begin("Shutdown", func() string {
						err := r.Shutdown(ctx)
						if st == shutDownAtOnce && idle && err == nil {
							// net/http of Go 1.27 does not wait for the answer to the GOAWAY of a connection without requests, and
							// one of ConfigureServer may have ended by then.
							err = ctx.Err()
						}
						return fmt.Sprint(err)
					}))
				case closeServer:
					seen = append(seen, begin("Close", func() string { return fmt.Sprint(r.Close()) }))
				case handlerReturns:
					close(release)
				}
				<-time.After(untilNothingNew)
				for _, a := range seen {
					fmt.Fprintf(&out, "\t%v\n", a)
				}
			}
			r.Close()
			if err := <-r.done; err != http.ErrServerClosed {
				t.Errorf("serving ended with %v", err)
			}
			if err := r.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown at the end: %v", err)
			}
			c.CloseIdleConnections()
		})
		return out.String()
	}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP2=%t", http2), func(t *testing.T) {
			for _, steps := range orders(3) {
				var want string
				for _, s := range stacks {
					if s.tls {
						continue
					}
					got := run(t, s, http2, steps)
					if !s.own {
						want = got
					} else if got != want {
						t.Errorf("%s:\n%swant\n%s", s.name, got, want)
					}
				}
			}
		})
	}
}

// TestServeAfterTheEnd: serving by a server that has ended returns http.ErrServerClosed and closes the listener.
func TestServeAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(ender) error{
		"Shutdown": func(e ender) error { return e.Shutdown(context.Background()) },
		"Close":    ender.Close,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := h2http.NewServer(&http.Server{Addr: "127.0.0.1:0"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := end(s); err != nil {
				t.Error(err)
			}
			l := newPipes()
			for name, serve := range map[string]func() error{
				"Serve":             func() error { return s.Serve(l) },
				"ListenAndServe":    s.ListenAndServe,
				"ListenAndServeTLS": func() error { return s.ListenAndServeTLS("", "") },
			} {
				if err := serve(); err != http.ErrServerClosed {
					t.Errorf("%s: %v", name, err)
				}
			}
			select {
			case <-l.closed:
			default:
				t.Error("the listener is open")
			}
		})
	}
}

// inFlight is a server of package-level Serve with a request in flight, whose handler ends when release is closed.
type inFlight struct {
	srv          *http.Server
	release      chan struct{}
	request, end *attempt // end: of Serve
	log          strings.Builder
}

func serveInFlight(t *testing.T) *inFlight {
	f := &inFlight{release: make(chan struct{})}
	l := newPipes()
	f.srv = &http.Server{ErrorLog: log.New(&f.log, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-f.release:
			io.WriteString(w, "whole")
		case <-r.Context().Done():
		}
	})}
	f.end = begin("Serve", func() string { return fmt.Sprint(h2http.Serve(l, f.srv)) })
	f.request = begin("request", func() string {
		rt := &h2http.Transport{DialContext: l.dial, Config: h2http.Config{Pool: drainedPool(t)}}
		defer rt.CloseIdleConnections()
		return ask(&http.Client{Transport: rt}, "http://pipe")
	})
	synctest.Wait()
	return f
}

// TestShutdownOfHTTPServer: the Shutdown of an http.Server that Serve serves returns after the requests in flight, also when its
// context has ended; and so does Serve.
func TestShutdownOfHTTPServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInFlight(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		shutdown := begin("Shutdown", func() string { return fmt.Sprint(f.srv.Shutdown(ctx)) })
		<-time.After(untilNothingNew)
		if got := fmt.Sprint(f.request, ", ", f.end, ", ", shutdown); got != "request: running, Serve: running, Shutdown: running" {
			t.Error(got)
		}
		synctest.Wait()
		if got := f.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "HTTP/2: 1)") || !strings.Contains(got, "h2http.Server.Shutdown") {
			t.Errorf("logged after %v: %q", untilNothingNew, got)
		}
		close(f.release)
		<-time.After(untilNothingNew)
		if got := fmt.Sprint(f.request, ", ", f.end, ", ", shutdown); got != "request: answered, Serve: http: Server closed, Shutdown: <nil>" {
			t.Error(got)
		}
	})
}

// TestShutdownInTimeIsNotLogged: a Shutdown of an http.Server that ends soon, and one of a Server, log nothing.
func TestShutdownInTimeIsNotLogged(t *testing.T) {
	for name, c := range map[string]struct {
		shutdown func(*h2http.Server, *http.Server) error
		after    time.Duration // the handler returns
	}{
		"http.Server":   {func(_ *h2http.Server, srv *http.Server) error { return srv.Shutdown(context.Background()) }, 5 * time.Second},
		"h2http.Server": {func(s *h2http.Server, _ *http.Server) error { return s.Shutdown(context.Background()) }, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged strings.Builder
				srv := &http.Server{ErrorLog: log.New(&logged, "", 0), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(c.after) })}
				s, err := h2http.NewServer(srv, &h2http.Config{Pool: drainedPool(t)})
				if err != nil {
					t.Fatal(err)
				}
				l := newPipes()
				served := begin("Serve", func() string { return fmt.Sprint(s.Serve(l)) })
				request := begin("request", func() string {
					rt := &h2http.Transport{DialContext: l.dial, Config: h2http.Config{Pool: drainedPool(t)}}
					defer rt.CloseIdleConnections()
					resp, err := rt.RoundTrip(must(http.NewRequest("GET", "http://pipe/", nil)))
					if err != nil {
						return err.Error()
					}
					resp.Body.Close()
					return resp.Status
				})
				synctest.Wait()
				if err := c.shutdown(s, srv); err != nil {
					t.Error(err)
				}
				<-time.After(2 * time.Hour)
				if got := fmt.Sprint(request, ", ", served); got != "request: 200 OK, Serve: http: Server closed" {
					t.Error(got)
				}
				synctest.Wait()
				if logged.Len() > 0 {
					t.Errorf("logged: %s", logged.String())
				}
			})
		})
	}
}

// TestCloseOfHTTPServer: the Close of an http.Server that Serve serves ends a request after a second.
func TestCloseOfHTTPServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInFlight(t)
		begun := time.Now()
		if err := f.srv.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		synctest.Wait()
		if got := fmt.Sprint(f.request, ", ", f.end); got != "request: failed, Serve: http: Server closed" {
			t.Error(got)
		}
	})
}

// TestServerOfConfigureServer: Serve uses what ConfigureServer was given; a second configuration is an error.
func TestServerOfConfigureServer(t *testing.T) {
	pool := tarntest.NewPool(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := h2http.ConfigureServer(srv, nil); err == nil {
		t.Error("configured twice")
	}
	l := listenTCP(t)
	served := make(chan error, 1)
	go func() { served <- h2http.Serve(l, srv) }()
	rt := &h2http.Transport{DialContext: dialer(t), Config: h2http.Config{Pool: drainedPool(t)}}
	before := pool.Stats().Gets
	resp, err := (&http.Client{Transport: rt}).Post("http://"+l.Addr().String(), "text/plain", strings.NewReader(text(100000)))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if pool.Stats().Gets == before {
		t.Error("the pool of ConfigureServer's Config is not used")
	}
	rt.CloseIdleConnections()
	srv.Shutdown(t.Context())
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// failing is a listener whose Accept fails when fail is closed.
type failing struct {
	*pipes
	fail chan struct{}
}

var errListener = errors.New("the listener fails")

func (l failing) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.fail:
		return nil, errListener
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// TestListenerFails: Serve returns the listener's error, connections go on, and Shutdown waits for them, as in net/http.
func TestListenerFails(t *testing.T) {
	for _, s := range stacks {
		if s.tls {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := failing{newPipes(), make(chan struct{})}
				release := make(chan struct{})
				r := s.startOn(t, l, l.dial, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-release
					io.WriteString(w, "whole")
				}), h2.Limits{})
				c := clientOver(l.pipes, true)
				request := begin("request", func() string { return ask(c, r.url) })
				synctest.Wait()
				close(l.fail)
				if err := <-r.done; err != errListener {
					t.Errorf("serving ended with %v", err)
				}
				shutdown := begin("Shutdown", func() string { return fmt.Sprint(r.Shutdown(t.Context())) })
				<-time.After(untilNothingNew)
				if got := fmt.Sprint(request, ", ", shutdown); got != "request: running, Shutdown: running" {
					t.Error(got)
				}
				close(release)
				<-time.After(untilNothingNew)
				if got := fmt.Sprint(request, ", ", shutdown); got != "request: answered, Shutdown: <nil>" {
					t.Error(got)
				}
			})
		})
	}
}

// TestIdleHTTP1WhileShuttingDown: an idle connection of HTTP/1.1 is closed while a request of HTTP/2 is waited for, as by net/http.
func TestIdleHTTP1WhileShuttingDown(t *testing.T) {
	for _, s := range stacks {
		if s.tls {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				release := make(chan struct{})
				r := s.startOn(t, l, l.dial, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.ProtoMajor == 2 {
						<-release
					}
					io.WriteString(w, "whole")
				}), h2.Limits{})
				c := clientOver(l, true)
				request := begin("request", func() string { return ask(c, r.url) })
				idle, err := l.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(idle), nil)
				if err != nil {
					t.Fatal(err)
				}
				if b, _ := io.ReadAll(resp.Body); string(b) != "whole" {
					t.Errorf("%q", b)
				}
				synctest.Wait()
				shutdown := begin("Shutdown", func() string { return fmt.Sprint(r.Shutdown(t.Context())) })
				<-time.After(time.Second)
				synctest.Wait()
				if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the idle connection: %v", err)
				}
				close(release)
				<-time.After(untilNothingNew)
				if got := fmt.Sprint(request, ", ", shutdown); got != "request: answered, Shutdown: <nil>" {
					t.Error(got)
				}
			})
		})
	}
}

// TestHijackedConnections: a connection of HTTP/1.1 that a handler has taken over is the handler's: neither Shutdown nor Close ends
// it, as in net/http.
func TestHijackedConnections(t *testing.T) {
	for _, s := range stacks {
		if s.tls {
			continue
		}
		for name, end := range map[string]func(ender) error{
			"Shutdown": func(e ender) error { return e.Shutdown(context.Background()) },
			"Close":    ender.Close,
		} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newPipes()
					r := s.startOn(t, l, l.dial, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						nc, _, err := w.(http.Hijacker).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						go func() {
							defer nc.Close()
							io.Copy(nc, nc)
						}()
					}), h2.Limits{})
					nc, err := l.dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
					io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					synctest.Wait()
					if err := end(r); err != nil {
						t.Error(err)
					}
					io.WriteString(nc, "echo")
					b := make([]byte, 4)
					if _, err := io.ReadFull(nc, b); string(b) != "echo" || err != nil {
						t.Errorf("%q, %v", b, err)
					}
				})
			})
		}
	}
}

// TestShutdownWithALateConnection: a connection that was accepted before Shutdown, and is seen after Shutdown has begun, does not put off
// the end when it sends nothing.
func TestShutdownWithALateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, late := net.Pipe()
		defer client.Close()
		l := lateListener{newPipes(), make(chan net.Conn, 1)}
		l.conn <- late
		close(l.conn)
		release := make(chan struct{})
		s, err := h2http.NewServer(&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}, &h2http.Config{Pool: drainedPool(t)})
		if err != nil {
			t.Fatal(err)
		}
		served := begin("Serve", func() string { return fmt.Sprint(s.Serve(l)) })
		c := clientOver(l.pipes, true)
		defer c.CloseIdleConnections()
		request := begin("request", func() string {
			resp, err := c.Get("http://pipe/")
			if err != nil {
				return err.Error()
			}
			resp.Body.Close()
			return resp.Status
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		shutdown := begin("Shutdown", func() string { return fmt.Sprint(s.Shutdown(ctx)) })
		<-time.After(time.Second)
		close(release)
		<-time.After(untilNothingNew)
		if got := fmt.Sprint(request, ", ", served, ", ", shutdown); got != "request: 200 OK, Serve: http: Server closed, Shutdown: <nil>" {
			t.Error(got)
		}
		s.Close()
		<-time.After(time.Second)
	})
}
