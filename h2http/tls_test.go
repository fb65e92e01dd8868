package h2http_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// tlsCase is a pair of TLS configurations and what they do to two requests, each on a connection of its own.
type tlsCase struct {
	name   string
	server func(c *tls.Config, k *tlsKeys)
	client func(c *tls.Config, k *tlsKeys)
	protos func(p *http.Protocols) // of the server
	// refused: the server refuses the connection once the client takes it for made. Both requests fail; the error is
	// the server's alert or GOAWAY or, where the client writes before it reads that, one of the socket's.
	refused bool
	// onlyHTTP1: the connection agrees on HTTP/1.1, which h2http.Transport neither offers nor speaks.
	onlyHTTP1 bool
}

// tlsKeys are the certificates of one case.
type tlsKeys struct {
	server, other, client tls.Certificate
	serverRoots, roots    *x509.CertPool // roots: of both certificates of the server
	clientRoots           *x509.CertPool
}

func newTLSKeys(t *testing.T) *tlsKeys {
	k := new(tlsKeys)
	k.server, k.serverRoots = testcert.New(t)
	k.client, k.clientRoots = testcert.New(t)
	k.other, _ = testcert.New(t)
	k.roots = x509.NewCertPool()
	for _, c := range []tls.Certificate{k.server, k.other} {
		parsed, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		k.roots.AddCert(parsed)
	}
	return k
}

func (k *tlsKeys) presentClient(c *tls.Config) { c.Certificates = []tls.Certificate{k.client} }

var tlsCases = []tlsCase{
	{name: "default"},
	{name: "TLS 1.2", server: func(c *tls.Config, k *tlsKeys) { c.MaxVersion = tls.VersionTLS12 }},
	{name: "TLS 1.2 wanted by the client", client: func(c *tls.Config, k *tlsKeys) { c.MaxVersion = tls.VersionTLS12 }},
	{name: "TLS 1.3 and no less", server: func(c *tls.Config, k *tlsKeys) { c.MinVersion = tls.VersionTLS13 },
		client: func(c *tls.Config, k *tlsKeys) { c.MaxVersion = tls.VersionTLS12 }},
	{name: "ChaCha20 with TLS 1.2", server: func(c *tls.Config, k *tlsKeys) {
		c.MaxVersion = tls.VersionTLS12
		c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}, client: func(c *tls.Config, k *tlsKeys) {
		c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}
	}},
	{name: "suite that HTTP/2 prohibits", refused: true, server: func(c *tls.Config, k *tlsKeys) {
		c.MaxVersion = tls.VersionTLS12
		c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}, client: func(c *tls.Config, k *tlsKeys) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA} }},
	{name: "client certificate required and given", server: requireClient, client: func(c *tls.Config, k *tlsKeys) { k.presentClient(c) }},
	{name: "client certificate required and given, TLS 1.2", server: requireClient12, client: func(c *tls.Config, k *tlsKeys) { k.presentClient(c) }},
	{name: "client certificate required and missing", refused: true, server: requireClient},
	{name: "client certificate required and missing, TLS 1.2", server: requireClient12},
	{name: "client certificate required and unknown", refused: true, server: requireClient, client: func(c *tls.Config, k *tlsKeys) { c.Certificates = []tls.Certificate{k.other} }},
	{name: "client certificate if given, given", server: clientIfGiven, client: func(c *tls.Config, k *tlsKeys) { k.presentClient(c) }},
	{name: "client certificate if given, missing", server: clientIfGiven},
	{name: "client certificate by GetClientCertificate", server: requireClient, client: func(c *tls.Config, k *tlsKeys) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &k.client, nil }
	}},
	{name: "session tickets", client: func(c *tls.Config, k *tlsKeys) { c.ClientSessionCache = tls.NewLRUClientSessionCache(8) }},
	{name: "session tickets, TLS 1.2", server: func(c *tls.Config, k *tlsKeys) { c.MaxVersion = tls.VersionTLS12 },
		client: func(c *tls.Config, k *tlsKeys) { c.ClientSessionCache = tls.NewLRUClientSessionCache(8) }},
	{name: "session tickets disabled", server: func(c *tls.Config, k *tlsKeys) { c.SessionTicketsDisabled = true },
		client: func(c *tls.Config, k *tlsKeys) { c.ClientSessionCache = tls.NewLRUClientSessionCache(8) }},
	{name: "session tickets and client certificates", server: requireClient, client: func(c *tls.Config, k *tlsKeys) {
		k.presentClient(c)
		c.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	}},
	{name: "GetCertificate by name", server: func(c *tls.Config, k *tlsKeys) {
		c.Certificates = nil
		c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if h.ServerName == testcert.Name {
				return &k.other, nil
			}
			return nil, fmt.Errorf("no certificate for %q", h.ServerName)
		}
	}, client: func(c *tls.Config, k *tlsKeys) { c.ServerName = testcert.Name }},
	{name: "GetCertificate that has none", server: func(c *tls.Config, k *tlsKeys) {
		c.Certificates = nil
		c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }
	}},
	{name: "GetConfigForClient by name", server: func(c *tls.Config, k *tlsKeys) {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{k.other}, NextProtos: []string{"h2", "http/1.1"}}, nil
		}
	}, client: func(c *tls.Config, k *tlsKeys) { c.ServerName = testcert.Name }},
	{name: "GetConfigForClient without h2", onlyHTTP1: true, server: func(c *tls.Config, k *tlsKeys) {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{k.other}, NextProtos: []string{"http/1.1"}}, nil
		}
	}},
	{name: "GetConfigForClient without ALPN", onlyHTTP1: true, server: func(c *tls.Config, k *tlsKeys) {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{k.other}}, nil
		}
	}},
	{name: "NextProtos of the server without h2", onlyHTTP1: true, server: func(c *tls.Config, k *tlsKeys) { c.NextProtos = []string{"http/1.1"} }},
	{name: "NextProtos of the server with another protocol", server: func(c *tls.Config, k *tlsKeys) { c.NextProtos = []string{"acme-tls/1"} }},
	{name: "NextProtos of the client with another protocol", client: func(c *tls.Config, k *tlsKeys) { c.NextProtos = []string{"other"} }},
	{name: "server of HTTP/1.1", onlyHTTP1: true, protos: func(p *http.Protocols) { p.SetHTTP2(false) }},
	{name: "server of HTTP/2 only", protos: func(p *http.Protocols) { p.SetHTTP1(false) }},
	{name: "unknown authority", client: func(c *tls.Config, k *tlsKeys) { c.RootCAs = k.clientRoots }},
	{name: "other name", client: func(c *tls.Config, k *tlsKeys) { c.ServerName = "other.test" }},
	{name: "VerifyPeerCertificate of the client refuses", client: func(c *tls.Config, k *tlsKeys) {
		c.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return errors.New("not this peer") }
	}},
	{name: "VerifyConnection of the client sees the protocol", client: func(c *tls.Config, k *tlsKeys) {
		c.VerifyConnection = func(s tls.ConnectionState) error { return fmt.Errorf("agreed on %q", s.NegotiatedProtocol) }
	}},
	{name: "VerifyConnection of the server refuses", refused: true, server: func(c *tls.Config, k *tlsKeys) {
		c.VerifyConnection = func(s tls.ConnectionState) error { return errors.New("not this client") }
	}},
}

func requireClient(c *tls.Config, k *tlsKeys) {
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, k.clientRoots
}

func requireClient12(c *tls.Config, k *tlsKeys) {
	requireClient(c, k)
	c.MaxVersion = tls.VersionTLS12
}

func clientIfGiven(c *tls.Config, k *tlsKeys) {
	c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, k.clientRoots
}

// tlsServers and tlsClients serve and send: net/http, with which the others are compared, first.
var (
	tlsServers = map[string]func(t *testing.T, srv *http.Server, l net.Listener) error{
		"net/http": func(t *testing.T, srv *http.Server, l net.Listener) error { return srv.ServeTLS(l, "", "") },
		"ConfigureServer": func(t *testing.T, srv *http.Server, l net.Listener) error {
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
				return err
			}
			return srv.ServeTLS(l, "", "")
		},
		"ServeTLS": func(t *testing.T, srv *http.Server, l net.Listener) error {
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: tarntest.NewPool(t)}); err != nil {
				return err
			}
			return h2http.ServeTLS(l, srv, "", "")
		},
	}
	tlsClients = map[string]func(t *testing.T, c *tls.Config) http.RoundTripper{
		"net/http": func(t *testing.T, c *tls.Config) http.RoundTripper {
			return &http.Transport{DialContext: dialer(t), TLSClientConfig: c, ForceAttemptHTTP2: true}
		},
		"ConfigureTransport": func(t *testing.T, c *tls.Config) http.RoundTripper {
			tr := &http.Transport{DialContext: dialer(t), TLSClientConfig: c}
			if err := h2http.ConfigureTransport(tr, &h2http.Config{Pool: drainedPool(t)}); err != nil {
				t.Fatal(err)
			}
			return tr
		},
		"Transport": func(t *testing.T, c *tls.Config) http.RoundTripper {
			return &h2http.Transport{DialContext: dialer(t), TLSClientConfig: c, Config: h2http.Config{Pool: drainedPool(t)}}
		},
	}
)

// run returns what is seen of two requests by the handler and the caller.
func (c *tlsCase) run(t *testing.T, k *tlsKeys, server, client string) string {
	l := listenTCP(t)
	srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{k.server}}}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := r.TLS
		fmt.Fprintf(w, "%s %s %s alpn=%q name=%q resumed=%t peers=%d chains=%d", r.Proto, tls.VersionName(s.Version), tls.CipherSuiteName(s.CipherSuite),
			s.NegotiatedProtocol, s.ServerName, s.DidResume, len(s.PeerCertificates), len(s.VerifiedChains))
	})
	if c.server != nil {
		c.server(srv.TLSConfig, k)
	}
	if c.protos != nil {
		srv.Protocols = protocols(true)
		c.protos(srv.Protocols)
	}
	served := make(chan error, 1)
	go func() { served <- tlsServers[server](t, srv, l) }()
	config := &tls.Config{RootCAs: k.roots}
	if c.client != nil {
		c.client(config, k)
	}
	rt := tlsClients[client](t, config)
	var seen []string
	for range 2 {
		req, _ := http.NewRequest("GET", "https://"+l.Addr().String()+"/", nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			if c.refused {
				seen = append(seen, "error")
			} else {
				seen = append(seen, tlsError(err))
			}
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		seen = append(seen, fmt.Sprintf("%s, %v, resumed=%t chains=%t", b, err, resp.TLS.DidResume, len(resp.TLS.VerifiedChains) > 0))
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	}
	srv.Close()
	if err := <-served; err != http.ErrServerClosed {
		seen = append(seen, err.Error())
	}
	return strings.Join(seen, "\n")
}

// tlsError returns which failure of TLS err is.
func tlsError(err error) string {
	for _, s := range []string{"handshake failure", "certificate signed by unknown authority", "is valid for", "protocol version",
		"internal error", "no application protocol", "not this peer", "agreed on"} {
		if strings.Contains(err.Error(), s) {
			return "error: " + s
		}
	}
	return "error: " + err.Error()
}

// TestTLS compares what pairs of TLS configurations do under net/http's server and client and under this package's.
func TestTLS(t *testing.T) {
	for _, c := range tlsCases {
		t.Run(c.name, func(t *testing.T) {
			k := newTLSKeys(t)
			want := c.run(t, k, "net/http", "net/http")
			if testing.Verbose() {
				t.Log(want)
			}
			for server := range tlsServers {
				for client := range tlsClients {
					t.Run(server+" and "+client, func(t *testing.T) {
						got := c.run(t, k, server, client)
						if c.onlyHTTP1 && client == "Transport" {
							if !strings.Contains(got, "does not offer HTTP/2") && !strings.Contains(got, "no application protocol") && !strings.HasPrefix(got, "HTTP/2.0") {
								t.Errorf("%s", got)
							}
						} else if got != want {
							t.Errorf("got\n%s\nwant\n%s", got, want)
						}
					})
				}
			}
		})
	}
}

// TestTLSHookPanics: a panic of the user's hook in a handshake, which a client may have caused, ends the connection and is logged, as with
// net/http, and does not end the program.
func TestTLSHookPanics(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		if !s.tls {
			return
		}
		var text lockedBuffer
		var asked atomic.Int32
		r := s.start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(srv *http.Server) {
			srv.ErrorLog = log.New(&text, "", 0)
			srv.TLSConfig.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				if asked.Add(1) == 1 {
					panic("of the hook")
				}
				return nil, nil
			}
		})
		if resp, err := r.client.Get(r.url); err == nil {
			resp.Body.Close()
			t.Error("the request whose handshake panicked succeeded")
		}
		resp, err := r.client.Get(r.url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := text.String(); !strings.Contains(got, "panic serving") || !strings.Contains(got, "of the hook") {
			t.Errorf("logged: %q", got)
		}
	})
}
