package h2http_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

func TestShutdownWaitsForHandlers(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		inside, release := make(chan struct{}), make(chan struct{})
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			<-release
			io.WriteString(w, "late")
		}))
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		<-inside
		short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := r.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown with a handler running: %v", err)
		}
		if err := <-r.done; err != http.ErrServerClosed {
			t.Errorf("serving ended with %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- r.Shutdown(context.Background()) }()
		close(release)
		if got := p.transcript(1); !strings.HasSuffix(got, "DATA late") {
			t.Errorf("%s", got)
		}
		p.until("GOAWAY", func() bool { return p.goAway != nil })
		p.nc.Close()
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestShutdownWhileAConnectionBegins: a request that comes with the first bytes of a connection which was accepted before Shutdown is
// served.
func TestShutdownWhileAConnectionBegins(t *testing.T) {
	attacked(t, func(t *testing.T, s stack) {
		accepted := make(chan struct{}, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }), func(srv *http.Server) {
			srv.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					accepted <- struct{}{}
				}
			}
		})
		nc, err := dialTCP(t, r.addr)
		if err != nil {
			t.Fatal(err)
		}
		<-accepted
		ended, closed := make(chan error, 1), make(chan struct{})
		r.srv.RegisterOnShutdown(sync.OnceFunc(func() { close(closed) }))
		go func() { ended <- r.Shutdown(t.Context()) }()
		<-closed // the listener is
		if s.tls {
			nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		}
		var out, block bytes.Buffer
		fr := http2.NewFramer(&out, nc)
		enc := hpack.NewEncoder(&block)
		for name, value := range map[string]string{":method": "GET", ":scheme": "https", ":authority": "a", ":path": "/"} {
			enc.WriteField(hpack.HeaderField{Name: name, Value: value})
		}
		out.WriteString(http2.ClientPreface)
		fr.WriteSettings()
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		if _, err := nc.Write(out.Bytes()); err != nil { // as one: a client that has seen the GOAWAY sends no request
			t.Fatal(err)
		}
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatalf("no response: %v", err)
			}
			if f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream) {
				break
			}
		}
		nc.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownWhileAConnectionIsSilent: a connection that was accepted before Shutdown and sends nothing is closed after five seconds,
// as by net/http, and Close closes it at once; http.Server's Close within a second.
func TestShutdownWhileAConnectionIsSilent(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*h2http.Server, *http.Server) error
		limit time.Duration
	}{
		{"Shutdown", func(s *h2http.Server, _ *http.Server) error { return s.Shutdown(context.Background()) }, 6 * time.Second},
		{"Close", func(s *h2http.Server, _ *http.Server) error { return s.Close() }, 0},
		{"http.Server's Shutdown", func(_ *h2http.Server, srv *http.Server) error { return srv.Shutdown(context.Background()) }, 6 * time.Second},
		{"http.Server's Close", func(_ *h2http.Server, srv *http.Server) error { return srv.Close() }, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				srv := &http.Server{Handler: http.NotFoundHandler()}
				s, err := h2http.NewServer(srv, nil)
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				nc, err := l.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				begun := time.Now()
				if err := c.end(s, srv); err != nil {
					t.Error(err)
				}
				if _, err := nc.Read(make([]byte, 1)); err == nil {
					t.Error("the connection is open")
				}
				if took := time.Since(begun); took > c.limit {
					t.Errorf("after %v", took)
				}
				if err := <-served; err != http.ErrServerClosed {
					t.Error(err)
				}
			})
		})
	}
}

func TestShutdownOfIdleConnections(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
		resp, err := r.client.Get(r.url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		var logged lockedBuffer
		ended := make(chan error, 1)
		inside := make(chan struct{})
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			<-r.Context().Done()
			ended <- r.Context().Err()
		}), func(srv *http.Server) { srv.ErrorLog = log.New(&logged, "", 0) })
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		<-inside
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != context.Canceled {
			t.Errorf("the handler's context ended with %v", err)
		}
		if err := <-r.done; err != http.ErrServerClosed {
			t.Errorf("serving ended with %v", err)
		}
		if s := logged.String(); s != "" {
			t.Errorf("logged: %s", s)
		}
	})
}

// TestConnState compares the states that are reported.
func TestConnState(t *testing.T) {
	var want []http.ConnState
	each(t, func(t *testing.T, s stack) {
		var mu sync.Mutex
		var got []http.ConnState
		closed := make(chan struct{})
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), func(srv *http.Server) {
			srv.ConnState = func(_ net.Conn, s http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, s)
				if s == http.StateClosed {
					close(closed)
				}
			}
		})
		p := r.dialPeer(t)
		for id := uint32(1); id < 5; id += 2 {
			p.request(id, end, "GET", "/")
			p.transcript(id)
			// Its end is reported after the response.
			p.until("idle state", func() bool {
				p.fr.WritePing(false, [8]byte{byte(id)})
				mu.Lock()
				defer mu.Unlock()
				return got[len(got)-1] == http.StateIdle
			})
		}
		p.nc.Close()
		<-closed
		mu.Lock()
		defer mu.Unlock()
		if !s.own && !s.tls {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("states %v; want %v", got, want)
		}
	})
}

// TestHooksDuringShutdown shuts down with a connection open and hooks set: they are called for the connections that clients
// have made, and for nothing else.
func TestHooksDuringShutdown(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		var mu sync.Mutex
		seen := make(map[string]int)
		count := func(c net.Conn) {
			mu.Lock()
			defer mu.Unlock()
			seen[c.RemoteAddr().String()]++
		}
		inside, release, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			<-release
		}), func(srv *http.Server) {
			srv.RegisterOnShutdown(sync.OnceFunc(func() { close(closed) }))
			srv.ConnState = func(c net.Conn, _ http.ConnState) { count(c) }
			srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				count(c)
				return ctx
			}
		})
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		<-inside
		done := make(chan error, 1)
		go func() { done <- r.Shutdown(context.Background()) }()
		<-closed
		close(release)
		p.until("GOAWAY", func() bool { return p.goAway != nil })
		p.nc.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[p.nc.LocalAddr().String()] == 0 && !faultnet.Omits(t, "the relay has addresses of its own") {
			t.Errorf("hooks were called for %v", seen)
		}
	})
}

// TestIdleTimeout: a connection ends with a GOAWAY when it has been idle for IdleTimeout after a request. On a busy machine
// the timeout may pass before the first request comes: then it is tried with a longer one.
func TestIdleTimeout(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		for d := 100 * time.Millisecond; ; d *= 4 {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), func(srv *http.Server) {
				srv.IdleTimeout = d
				srv.ErrorLog = log.New(io.Discard, "", 0)
			})
			p, err := r.connect(t)
			if err == nil {
				p.request(1, end, "GET", "/")
				if p.ends(1) {
					p.until("GOAWAY", func() bool { return p.goAway != nil })
					return
				}
			}
			if d > lastTry {
				t.Fatalf("no request was answered within %v: %v", d, err)
			}
		}
	})
}

// TestConnectionCloseEndsTheConnection is what a handler's "Connection: close" does.
func TestConnectionCloseEndsTheConnection(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }))
		p := r.dialPeer(t)
		p.request(1, end, "GET", "/")
		p.transcript(1)
		p.until("GOAWAY", func() bool { return p.goAway != nil })
	})
}

func TestHTTP1OnTheSamePort(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols), DialContext: dialer(t)}
		tr.Protocols.SetHTTP1(true)
		defer tr.CloseIdleConnections()
		for range 2 {
			resp, err := (&http.Client{Transport: tr}).Get(r.url)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(b) != "HTTP/1.1" {
				t.Errorf("%q", b)
			}
		}
	})
}

// TestFirstBytesInPieces sends the bytes by which the protocols are told apart one at a time.
func TestFirstBytesInPieces(t *testing.T) {
	for _, s := range stacks {
		if s.tls {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
			t.Run("HTTP/1.1", func(t *testing.T) {
				nc, err := dialTCP(t, r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				for _, b := range []byte("PRICE / HTTP/1.1\r\nHost: x\r\n\r\n") {
					nc.Write([]byte{b})
				}
				resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
				if err != nil {
					t.Fatal(err)
				}
				if b, _ := io.ReadAll(resp.Body); string(b) != "HTTP/1.1" {
					t.Errorf("%q", b)
				}
			})
			t.Run("HTTP/2", func(t *testing.T) {
				nc, err := dialTCP(t, r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				for _, b := range []byte(http2.ClientPreface) {
					nc.Write([]byte{b})
				}
				var b bytes.Buffer
				http2.NewFramer(&b, nil).WriteSettings()
				nc.Write(b.Bytes())
				if f, err := http2.NewFramer(nil, nc).ReadFrame(); err != nil || f.Header().Type != http2.FrameSettings {
					t.Errorf("%v, %v", f, err)
				}
			})
		})
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
		t.Fatal(err)
	}
	go h2http.Serve(throughNetwork(t, l), srv)
	rt := &h2http.Transport{
		DialContext: dialThrough(t, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		Config: h2http.Config{Pool: drainedPool(t)},
	}
	t.Cleanup(func() {
		rt.CloseIdleConnections()
		srv.Shutdown(context.Background())
	})
	resp, err := (&http.Client{Transport: rt}).Get("http://anything/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "HTTP/2.0" {
		t.Errorf("%q", b)
	}
}

func TestServeErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := new(http.Server)
	go srv.Shutdown(context.Background())
	l.Close()
	if err := h2http.Serve(l, srv); err == nil {
		t.Error("Serve on a closed listener returned nil")
	}
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := h2http.ServeTLS(l, new(http.Server), "no-such-file", "no-such-file"); err == nil {
		t.Error("ServeTLS without a certificate returned nil")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
	srv = &http.Server{TLSConfig: &tls.Config{CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}}
	if err := h2http.ConfigureServer(srv, nil); err == nil {
		t.Error("a list of cipher suites without HTTP/2's was accepted")
	}
}

// TestListenerOfTLSConfig serves on a listener that was made with the server's TLSConfig.
func TestListenerOfTLSConfig(t *testing.T) {
	cert, _ := testcert.New(t)
	srv := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
	}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
		t.Fatal(err)
	}
	l := tls.NewListener(listenTCP(t), srv.TLSConfig)
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DialContext: dialer(t)}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "HTTP/2.0" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestShutdownWithASilentClient: a client that sends nothing any more since the middle of a response is waited for two seconds after the
// response's end, net/http one.
func TestShutdownWithASilentClient(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		synctest.Test(t, func(t *testing.T) {
			l := newPipes()
			const handler = time.Second // the time that it takes after Shutdown
			began, left := make(chan struct{}), make(chan struct{})
			r := s.startOn(t, l, l.dial,
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Write(make([]byte, 10<<10))
					w.(http.Flusher).Flush()
					close(began)
					<-left
					w.Write(make([]byte, 10<<10))
				}), h2.Limits{})
			nc, err := l.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if s.tls {
				nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			}
			defer nc.Close()
			go func() {
				var out, block bytes.Buffer
				fr := http2.NewFramer(&out, nil)
				enc := hpack.NewEncoder(&block)
				for name, value := range map[string]string{":method": "GET", ":scheme": "https", ":authority": "a", ":path": "/"} {
					enc.WriteField(hpack.HeaderField{Name: name, Value: value})
				}
				out.WriteString(http2.ClientPreface)
				fr.WriteSettings()
				fr.WriteSettingsAck()
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
				nc.Write(out.Bytes())
				io.Copy(io.Discard, nc)
			}()
			<-began
			begun := time.Now()
			time.AfterFunc(handler, func() { close(left) })
			if err := r.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > handler+2*time.Second+500*time.Millisecond { // http.Server looks every half second
				t.Errorf("after %v", took)
			} else {
				t.Log(took)
			}
		})
	})
}
