//lint:file-ignore SA1019 the HTTP/2 of x/net is a peer here

package h2http_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// counted is the names that CountError was called with.
type counted struct {
	mu      sync.Mutex
	changed *sync.Cond
	names   []string
}

func newCounted() *counted {
	c := new(counted)
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *counted) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
	c.changed.Broadcast()
}

// until waits until each of want is a prefix of a name that was counted, and returns all of them.
func (c *counted) until(t *testing.T, want []string) []string {
	t.Helper()
	timedOut := false
	timer := time.AfterFunc(20*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		timedOut = true
		c.changed.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := func(w string) bool {
		return !slices.ContainsFunc(c.names, func(n string) bool { return strings.HasPrefix(n, w) })
	}
	for slices.ContainsFunc(want, missing) {
		if timedOut {
			t.Fatalf("counted %q, not %q", c.names, want)
		}
		c.changed.Wait()
	}
	return slices.Clone(c.names)
}

// countingClients are x/net's client and this package's. net/http's does not call CountError.
func countingClients() []clientStack {
	xnet := func(overTLS bool) func(t testing.TB, s *clientSetup) http.RoundTripper {
		return func(t testing.TB, s *clientSetup) http.RoundTripper {
			tr := &http2.Transport{
				CountError: s.tr.HTTP2.CountError, ReadIdleTimeout: s.tr.HTTP2.SendPingTimeout, PingTimeout: s.tr.HTTP2.PingTimeout, AllowHTTP: true,
			}
			dial := s.dial
			if dial == nil {
				dial = func(_ context.Context, _, addr string) (net.Conn, error) { return dialTCP(t, addr) }
			}
			tr.DialTLSContext = func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if err != nil || !overTLS {
					return nc, err
				}
				c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
				return c, c.HandshakeContext(ctx)
			}
			t.Cleanup(tr.CloseIdleConnections)
			return tr
		}
	}
	stacks := []clientStack{{"x/net", xnet(false), false, false}, {"x/net over TLS", xnet(true), true, false}}
	for _, s := range clientStacks {
		if s.own {
			stacks = append(stacks, s)
		}
	}
	return stacks
}

// failingConn is a connection whose end is a failure of the network.
type failingConn struct{ net.Conn }

func (c failingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = errors.New("the network has failed")
	}
	return n, err
}

// TestCountErrorOfClients: CountError is called for what servers do wrong, with the names that x/net's client uses. That one
// also counts what is wrong with a frame ("frame_…"), and what follows from its own closing of a connection.
func TestCountErrorOfClients(t *testing.T) {
	closeAfter := func(nc io.ReadWriteCloser) { // without a reset for what was not read
		c, ok := nc.(interface{ CloseWrite() error })
		if !ok { // on a network whose connections are not reset by that
			nc.Close()
			return
		}
		c.CloseWrite()
		io.Copy(io.Discard, nc)
	}
	for _, c := range []struct {
		name  string
		serve func(s *script, id uint32, nc io.ReadWriteCloser)
		ping  time.Duration // SendPingTimeout and PingTimeout
		want  []string
	}{
		{"reset", func(s *script, id uint32, _ io.ReadWriteCloser) {
			s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeInternal) })
		}, 0, []string{"recv_rststream_INTERNAL_ERROR"}},
		{"reset with an unknown code", func(s *script, id uint32, _ io.ReadWriteCloser) {
			s.do(func() { s.fr.WriteRSTStream(id, 0xbeef) })
		}, 0, []string{"recv_rststream_ERR_UNKNOWN_48879"}},
		{"GOAWAY", func(s *script, id uint32, nc io.ReadWriteCloser) {
			s.do(func() { s.fr.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, nil) })
			closeAfter(nc)
		}, 0, []string{"recv_goaway_ENHANCE_YOUR_CALM", "read_frame_eof"}},
		{"broken protocol", func(s *script, id uint32, nc io.ReadWriteCloser) {
			s.do(func() { s.fr.WriteData(0, false, nil) })
		}, 0, []string{"read_frame_conn_error_PROTOCOL_ERROR"}},
		{"closed when idle", func(s *script, id uint32, nc io.ReadWriteCloser) {
			s.answer(id, "200")
			closeAfter(nc)
		}, 0, []string{"read_frame_eof"}},
		{"closed within a request", func(s *script, id uint32, nc io.ReadWriteCloser) {
			closeAfter(nc)
		}, 0, []string{"read_frame_eof"}},
		{"silent", func(*script, uint32, io.ReadWriteCloser) {}, 20 * time.Millisecond, []string{"conn_close_lost_ping"}},
		{"network fails", func(_ *script, _ uint32, nc io.ReadWriteCloser) {
			if c, ok := nc.(*tls.Conn); ok {
				nc = c.NetConn() // without the alert that would be the end
			}
			closeAfter(nc)
		}, 0, []string{"read_frame_other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range countingClients() {
				t.Run(s.name, func(t *testing.T) {
					if slices.Contains(c.want, "read_frame_eof") {
						faultnet.NeedsHalfClose(t)
					}
					n := newCounted()
					url := countedOrigin(t, s.tls, c.serve)
					setup := &clientSetup{tr: http.Transport{HTTP2: &http.HTTP2Config{
						CountError: n.count, SendPingTimeout: c.ping, PingTimeout: c.ping,
					}}}
					if c.name == "network fails" {
						faultnet.NeedsTCP(t, "the failure is that of a wrapped TCP connection")
						setup.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
							nc, err := new(net.Dialer).DialContext(ctx, network, addr)
							return failingConn{nc}, err
						}
					}
					rt := s.make(t, setup)
					req, err := http.NewRequest("GET", url, nil)
					if err != nil {
						t.Fatal(err)
					}
					if resp, err := rt.RoundTrip(req); err == nil {
						resp.Body.Close()
					}
					got := n.until(t, c.want)
					if c.ping > 0 { // before the request is sent: then another connection is counted, too
						got = slices.Compact(got)
					}
					if s.own && !slices.Equal(got, c.want) {
						t.Errorf("counted %q, not %q", got, c.want)
					}
				})
			}
		})
	}
}

// countedOrigin starts an origin that calls serve with the stream of each request.
func countedOrigin(t *testing.T, overTLS bool, serve func(s *script, id uint32, nc io.ReadWriteCloser)) (url string) {
	return rawOrigin(t, overTLS, func(_ int, nc io.ReadWriteCloser, fr *http2.Framer) {
		sc := &script{fr: fr}
		fr.AllowIllegalWrites = true
		sc.do(func() { fr.WriteSettings(); fr.WriteSettingsAck() })
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := f.(*http2.HeadersFrame); ok {
				serve(sc, h.StreamID, nc)
			}
		}
	})
}

// TestCountErrorOfStreams: a response that breaks the protocol is counted as stream_ and the code here, not at all by x/net's
// client; and net/http's calls CountError since Go 1.27, for a stream that the server resets.
func TestCountErrorOfStreams(t *testing.T) {
	malformed := func(s *script, id uint32, _ io.ReadWriteCloser) {
		s.do(func() {
			s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88, 0x88}, EndHeaders: true, EndStream: true}) // :status twice
		})
	}
	reset := func(s *script, id uint32, _ io.ReadWriteCloser) {
		s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeInternal) })
	}
	for _, s := range append(clientStacks[:2:2], countingClients()...) {
		t.Run(s.name, func(t *testing.T) {
			isNetHTTP := strings.HasPrefix(s.name, "net/http")
			for _, c := range []struct {
				serve     func(s *script, id uint32, nc io.ReadWriteCloser)
				own, xNet []string
			}{{malformed, []string{"stream_PROTOCOL_ERROR"}, nil}, {reset, []string{"recv_rststream_INTERNAL_ERROR"}, []string{"recv_rststream_INTERNAL_ERROR"}}} {
				n := newCounted()
				rt := s.make(t, &clientSetup{tr: http.Transport{HTTP2: &http.HTTP2Config{CountError: n.count}}})
				req, _ := http.NewRequest("GET", countedOrigin(t, s.tls, c.serve), nil)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
					t.Error("the request did not fail")
				}
				want := c.xNet
				switch {
				case s.own:
					want = c.own
				case isNetHTTP:
					want = by127(nil, c.xNet)
				}
				if got := n.until(t, want); !slices.Equal(got, want) {
					t.Errorf("counted %q, not %q", got, want)
				}
			}
		})
	}
}

// TestCountErrorOfServers is the same for servers. After the error code net/http says what was wrong.
func TestCountErrorOfServers(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(p *peer)
		ping   time.Duration // SendPingTimeout and PingTimeout
		want   string
	}{
		{"request without a path", func(p *peer) { p.headers(1, end, ":method", "GET", ":scheme", "http") }, 0, "stream_PROTOCOL_ERROR"},
		{"request whose path is empty", func(p *peer) { p.request(1, end, "GET", "") }, 0, "stream_PROTOCOL_ERROR"},
		{"window beyond the maximum", func(p *peer) {
			p.request(1, end, "GET", "/")
			p.window(1, 1<<31-1)
		}, 0, "stream_FLOW_CONTROL_ERROR"},
		{"HEADERS on an even stream", func(p *peer) { p.request(2, end, "GET", "/") }, 0, "conn_PROTOCOL_ERROR"},
		{"silent", func(p *peer) { p.mu.Lock(); p.mute = true; p.mu.Unlock() }, 20 * time.Millisecond, "conn_close_lost_ping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, s stack) {
				n := newCounted()
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
				}), func(srv *http.Server) {
					srv.HTTP2 = &http.HTTP2Config{CountError: n.count, SendPingTimeout: c.ping, PingTimeout: c.ping}
				})
				p, err := r.connect(t)
				if err != nil && c.ping == 0 { // otherwise the connection may have ended by then
					t.Fatal(err)
				}
				if err == nil {
					defer p.nc.Close()
					if c.ping == 0 {
						p.ping()
					}
					c.client(p)
				}
				got := n.until(t, []string{c.want})
				if s.own && !slices.Equal(got, []string{c.want}) {
					t.Errorf("counted %q, not %q", got, c.want)
				}
			})
		})
	}
}
