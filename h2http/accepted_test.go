package h2http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

type hookKey string

// hooks notes what a server's hooks are called with, connection by connection.
type hooks struct {
	t     *testing.T
	mu    sync.Mutex
	conns []net.Conn
	list  [][]string    // what was noted of each connection
	ended chan struct{} // receives when one is closed
}

func newHooks(t *testing.T) *hooks { return &hooks{t: t, ended: make(chan struct{}, 16)} }

// install sets ConnContext and ConnState, and BaseContext.
func (h *hooks) install(srv *http.Server) {
	srv.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.Background(), hookKey("base"), "b")
	}
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_, overTLS := c.(*tls.Conn)
		made := overTLS && c.(*tls.Conn).ConnectionState().HandshakeComplete
		h.add(c, "ConnContext TLS=%t handshake=%t base=%v server=%t", overTLS, made, ctx.Value(hookKey("base")), ctx.Value(http.ServerContextKey) == srv)
		return context.WithValue(ctx, hookKey("conn"), c)
	}
	srv.ConnState = func(c net.Conn, s http.ConnState) {
		switch s { // the others depend on when the client closes the connection; TestConnState has them
		case http.StateNew:
			h.add(c, "%v", s)
		case http.StateClosed:
			h.add(c, "%v", s)
			h.ended <- struct{}{}
		}
	}
}

func (h *hooks) add(c net.Conn, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.conns, c)
	if i < 0 {
		i = len(h.conns)
		h.conns, h.list = append(h.conns, c), append(h.list, nil)
	}
	h.list[i] = append(h.list[i], fmt.Sprintf(format, args...))
}

// whole waits for the end of so many connections and returns what was noted.
func (h *hooks) whole(n int) string {
	for range n {
		select {
		case <-h.ended:
		case <-time.After(untilLimit):
			return "not closed"
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, l := range h.list {
		all = append(all, strings.Join(l, ", "))
	}
	return strings.Join(all, "\n")
}

// TestHooksOfConnections: each connection has its context and is reported as new before anything of it has been read, whichever
// protocol it turns out to use, if any, and each hook is called as often as net/http calls it.
func TestHooksOfConnections(t *testing.T) {
	for _, c := range []struct {
		name  string
		conns int
		only  string // "TLS", "plain", or both
		use   func(t *testing.T, r *rig)
	}{
		{"HTTP/2", 1, "", func(t *testing.T, r *rig) {
			p := r.dialPeer(t)
			p.request(1, end, "GET", "/")
			p.transcript(1)
			p.nc.Close()
		}},
		{"HTTP/1.1", 1, "", func(t *testing.T, r *rig) { r.askHTTP1(t) }},
		{"HTTP/1.1 after HTTP/1.1", 2, "", func(t *testing.T, r *rig) {
			r.askHTTP1(t)
			r.askHTTP1(t)
		}},
		{"no byte", 1, "plain", func(t *testing.T, r *rig) {
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
		}},
		{"no handshake", 1, "TLS", func(t *testing.T, r *rig) {
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
		}},
		{"a handshake that fails", 1, "TLS", func(t *testing.T, r *rig) {
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"none"}})
			c.Handshake()
			nc.Close()
		}},
		{"HTTP/1 without TLS", 1, "TLS", func(t *testing.T, r *rig) {
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			io.Copy(io.Discard, nc)
			nc.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := make(map[bool]string)
			each(t, func(t *testing.T, s stack) {
				if c.only == "TLS" && !s.tls || c.only == "plain" && s.tls {
					return
				}
				h := newHooks(t)
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.add(r.Context().Value(hookKey("conn")).(net.Conn), "request base=%v", r.Context().Value(hookKey("base")))
				}), h.install, func(srv *http.Server) { srv.ErrorLog = log.New(io.Discard, "", 0) })
				c.use(t, r)
				got := h.whole(c.conns)
				if !s.own {
					want[s.tls] = got
				} else if got != want[s.tls] {
					t.Errorf("got\n%s\nwant\n%s", got, want[s.tls])
				}
			})
		})
	}
}

// askHTTP1 makes a request on a connection of its own, by HTTP/1.1.
func (r *rig) askHTTP1(t *testing.T) {
	t.Helper()
	nc, err := dialTCP(t, r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if strings.HasPrefix(r.url, "https:") {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	}
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// TestHandshakeContext: what a hook of the TLS configuration is called with has the connection's context, and ends with it.
func TestHandshakeContext(t *testing.T) {
	for _, proto := range []string{"h2", "http/1.1"} {
		t.Run(proto, func(t *testing.T) {
			var want string
			each(t, func(t *testing.T, s stack) {
				if !s.tls {
					return
				}
				got := make(chan string, 1)
				r := s.start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), newHooks(t).install, func(srv *http.Server) {
					srv.TLSConfig.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
						ctx := h.Context()
						c, _ := ctx.Value(hookKey("conn")).(*tls.Conn)
						_, local := ctx.Value(http.LocalAddrContextKey).(net.Addr)
						got <- fmt.Sprintf("conn=%t base=%v server=%t local=%t", c != nil && c.NetConn() == h.Conn, ctx.Value(hookKey("base")),
							ctx.Value(http.ServerContextKey) == srv, local)
						return nil, nil
					}
				})
				nc, err := dialTCP(t, r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				if err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}).Handshake(); err != nil {
					t.Fatal(err)
				}
				if g := <-got; !s.own {
					want = g
				} else if g != want {
					t.Errorf("%s; want %s", g, want)
				}
			})
		})
	}
	t.Run("ended", func(t *testing.T) {
		each(t, func(t *testing.T, s stack) {
			if !s.tls {
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := s.start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(srv *http.Server) {
				srv.ErrorLog = log.New(io.Discard, "", 0)
				srv.ConnContext = func(context.Context, net.Conn) context.Context { return ctx }
			})
			nc, err := dialTCP(t, r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			cancel() // the server waits for the handshake
			nc.SetReadDeadline(time.Now().Add(untilLimit))
			if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	})
}

// TestCertificateFiles: the certificate of files is used in place of those of TLSConfig.
func TestCertificateFiles(t *testing.T) {
	certFile, keyFile, roots := testcert.Files(t)
	configured, _ := testcert.New(t)
	for _, c := range []struct {
		name  string
		serve func(l net.Listener, srv *http.Server) error
	}{
		{"net/http", func(l net.Listener, srv *http.Server) error { return srv.ServeTLS(l, certFile, keyFile) }},
		{"ServeTLS", func(l net.Listener, srv *http.Server) error {
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
				return err
			}
			return h2http.ServeTLS(l, srv, certFile, keyFile)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listenTCP(t)
			srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{configured}}}
			done := make(chan error, 1)
			go func() { done <- c.serve(l, srv) }()
			nc, err := dialTCP(t, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if err := tls.Client(nc, &tls.Config{RootCAs: roots, ServerName: testcert.Name}).Handshake(); err != nil {
				t.Error(err)
			}
			srv.Close()
			<-done
		})
	}
}

// stateListener accepts connections that hide a *tls.Conn and have its state, as those of listeners that wrap TLS do.
type stateListener struct{ net.Listener }

type stateConn struct {
	faultnet.Hidden
	tls *tls.Conn
}

func (c stateConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

func (l stateListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := nc.(*tls.Conn)
	return stateConn{faultnet.Hidden{Conn: c}, c}, nil
}

// TestListenersOverTLS serves on a listener whose connections use TLS already: handlers see its state, by either protocol.
func TestListenersOverTLS(t *testing.T) {
	for _, c := range []struct {
		name string
		wrap func(l net.Listener) net.Listener
		alpn bool // decides the protocol; otherwise net/http serves HTTP/1.1 only, and Serve decides by the first bytes
	}{
		{"tls.NewListener", func(l net.Listener) net.Listener { return l }, true},
		{"wrapped", func(l net.Listener) net.Listener { return stateListener{l} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want string
			each(t, func(t *testing.T, s stack) {
				if s.tls {
					return
				}
				cert, _ := testcert.New(t)
				l := c.wrap(tls.NewListener(listenTCP(t), &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}))
				h := newHooks(t)
				srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Protocols: protocols(false)}
				srv.Protocols.SetHTTP2(true)
				srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.TLS == nil {
						io.WriteString(w, r.Proto+" without TLS")
						return
					}
					fmt.Fprintf(w, "%s ALPN=%s", r.Proto, r.TLS.NegotiatedProtocol)
				})
				h.install(srv)
				if s.own {
					if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
						t.Fatal(err)
					}
				}
				done := make(chan error, 1)
				go func() { done <- s.serve(srv, l) }()
				var got []string
				versions := []bool{false, true}
				if !c.alpn && s.name != "Serve" {
					versions = versions[:1]
				}
				for _, http2 := range versions {
					tr := &http.Transport{DialContext: dialer(t), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
					tr.Protocols.SetHTTP2(http2)
					tr.Protocols.SetHTTP1(!http2)
					resp, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					b, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					got = append(got, string(b))
					tr.CloseIdleConnections()
				}
				if http2 := "HTTP/2.0 ALPN=h2"; !c.alpn && s.name == "Serve" {
					if got[1] != http2 {
						t.Errorf("%s; want %s", got[1], http2)
					}
					got = got[:1]
				}
				first, _, _ := strings.Cut(h.whole(len(versions)), "\n")
				got = append(got, first)
				srv.Close()
				<-done
				if all := strings.Join(got, "\n"); !s.own {
					want = all
				} else if all != want {
					t.Errorf("got\n%s\nwant\n%s", all, want)
				}
			})
		})
	}
}
