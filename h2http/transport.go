package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/monotonic"
)

// Transport is an http.RoundTripper that supports HTTP/2 only: over TLS for https, and
// unencrypted, with prior knowledge (RFC 9113 section 3.3), for http. Its fields mean
// what those of http.Transport and http.HTTP2Config mean. It must not be changed after
// the first request nor copied; the zero Transport is ready to use. It uses no proxy.
//
// Requests to one host share connections. While the peer permits no further stream on
// one, another is opened, unless HTTP2.StrictMaxConcurrentRequests says to wait or
// MaxConnsPerHost is reached.
//
// A request that the peer has provably not processed (a stream refused, or beyond the
// last of a GOAWAY) is sent again, if it has no body or a GetBody.
type Transport struct {
	// DialContext makes connections; nil: net.Dialer's. For a Unix socket, ignore the
	// address that it is called with.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTLSContext makes connections for https that have agreed on "h2"; nil:
	// DialContext and TLSClientConfig.
	DialTLSContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLSClientConfig is cloned; its NextProtos are replaced by "h2".
	TLSClientConfig *tls.Config

	TLSHandshakeTimeout    time.Duration // 0: 10 s
	IdleConnTimeout        time.Duration // 0: for ever
	ResponseHeaderTimeout  time.Duration // 0: none
	ExpectContinueTimeout  time.Duration // 0: the body is sent at once
	MaxResponseHeaderBytes int64         // 0: 10 MiB
	MaxConnsPerHost        int           // 0: no limit
	DisableCompression     bool
	DisableKeepAlives      bool // a connection serves one request

	// HTTP2 configures the protocol.
	HTTP2 *http.HTTP2Config
	// Config holds what net/http has no setting for.
	Config Config

	once sync.Once
	pool *clientPool
	err  error // why it cannot be used

	requests requests
}

// defaultResponseHeader is the default of MaxResponseHeaderBytes for HTTP/2, in bytes,
// as in net/http.
const defaultResponseHeader = 10 << 20

func (t *Transport) init() {
	t.once.Do(func() {
		t.pool, t.err = newClientPool(clientSettings{
			conf:            t.HTTP2,
			own:             t.Config,
			maxHeader:       t.MaxResponseHeaderBytes,
			idle:            t.IdleConnTimeout,
			headerTimeout:   t.ResponseHeaderTimeout,
			continueTimeout: t.ExpectContinueTimeout,
			plainResponses:  t.DisableCompression,
			singleUse:       t.DisableKeepAlives,
			maxConns:        t.MaxConnsPerHost,
			dial:            t.dial,
		})
	})
}

// RoundTrip sends a request and returns its response; see http.RoundTripper. An error
// is that of the request, of its context (its cause, while there is no connection), of
// dialling, by errors.As *h2.StreamError, *h2.ConnError or *h2.GoAwayError, or the
// network's.
func (t *Transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	t.init()
	if t.err != nil {
		closeBody(r)
		return nil, t.err
	}
	if t.requests.begin() {
		began := monotonic.Now()
		defer func() { t.count(began, r, resp) }()
	}
	return t.pool.roundTrip(r, nil, dialing)
}

// count counts a request that has begun at began and has got resp; nil: it has failed.
func (t *Transport) count(began monotonic.Instant, r *http.Request, resp *http.Response) {
	host, how := "", noResponse
	if r.URL != nil {
		host = r.URL.Host
	}
	if resp != nil {
		how = outcomeOf(resp.StatusCode)
	}
	now := monotonic.Now()
	t.requests.route(routeNameOf(r.Method, host)).add(how, now.Since(began), now, (*tracedRequest)(r))
}

// tracedRequest is a request of a client.
type tracedRequest http.Request

func (r *tracedRequest) traceparent() string { return r.Header.Get("Traceparent") }

// CloseIdleConnections closes the connections on which no request is under way.
func (t *Transport) CloseIdleConnections() {
	t.init()
	if t.err == nil {
		t.pool.CloseIdleConnections()
	}
}

// dial makes a connection to the host and port in addr.
func (t *Transport) dial(ctx context.Context, scheme, addr string) (net.Conn, error) {
	if scheme == "https" && t.DialTLSContext != nil {
		return t.DialTLSContext(ctx, "tcp", addr)
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, "tcp", addr)
	if err != nil || scheme != "https" {
		return nc, err
	}
	c, err := t.handshake(ctx, nc, addr)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (t *Transport) handshake(ctx context.Context, nc net.Conn, addr string) (net.Conn, error) {
	config := new(tls.Config)
	if t.TLSClientConfig != nil {
		config = t.TLSClientConfig.Clone()
	}
	config.NextProtos = []string{protoTLS}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	timeout := t.TLSHandshakeTimeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := tls.Client(nc, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if p := c.ConnectionState().NegotiatedProtocol; p != protoTLS {
		return nil, fmt.Errorf("h2http: %s does not offer HTTP/2 (ALPN: %q)", addr, p)
	}
	return c, nil
}

// maxRetries is how often a request is sent again.
const maxRetries = 6

// dialMode says what a request that finds no connection does.
type dialMode uint8

const (
	dialing    dialMode = iota
	notDialing          // noConnError is returned
)

// noConnError asks http.Transport to dial.
type noConnError struct{}

func (noConnError) Error() string { return "h2http: no connection" }

// IsHTTP2NoCachedConnError is what http.Transport looks for.
func (noConnError) IsHTTP2NoCachedConnError() {}

// roundTrip sends r on a connection of g (nil: of r's host), and again when the peer has not
// processed it.
func (p *clientPool) roundTrip(r *http.Request, g *group, mode dialMode) (*http.Response, error) {
	if r.URL == nil || r.Header == nil {
		closeBody(r)
		return nil, errors.New("h2http: Request.URL or Request.Header is nil")
	}
	scheme := r.URL.Scheme
	if scheme != "http" && scheme != "https" {
		closeBody(r)
		return nil, fmt.Errorf("h2http: unsupported scheme %q", scheme)
	}
	if err := p.begin(); err != nil {
		closeBody(r)
		return nil, err
	}
	if g == nil {
		g = p.group(scheme, r.URL.Host)
	}
	if cancelOf(r) == nil {
		resp, _, err := p.send(r, g, mode)
		return resp, err
	}
	copied, end := withCancel(r)
	began := false
	defer func() {
		if !began { // an error, or a panic of the request's body or of a hook, which the caller may recover
			end()
		}
	}()
	resp, call, err := p.send(copied, g, mode)
	if err != nil {
		return nil, err
	}
	began = true
	resp.Request = r
	call.whenReleased(end)
	return resp, nil
}

// send is roundTrip without r.Cancel. It returns the call that the response is of, too.
func (p *clientPool) send(r *http.Request, g *group, mode dialMode) (*http.Response, *call, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	first := r
	var last *call
	for retry := 0; ; retry++ {
		if err := ended(r.Context()); err != nil { // before GetConn
			closeBody(r)
			return nil, nil, err
		}
		c, wait, err := g.get(r.Context(), trace, mode)
		if err != nil {
			if r != first || !errors.Is(err, noConnError{}) { // otherwise http.Transport sends r
				closeBody(r)
			}
			if last != nil && errors.Is(err, noConnError{}) { // http.Transport looks at what has become of the first's body
				if ctx := r.Context(); !last.sending.awaitClosed(ctx.Done()) {
					err = ctx.Err()
				}
			}
			return nil, nil, err
		}
		call := newCall(c, r, trace)
		call.noWait = !wait
		last = call
		resp, err := call.roundTrip()
		if err == nil {
			return resp, call, nil
		}
		full := errors.Is(err, h2.ErrStreamLimit) // another request has taken the stream
		if !call.wasUnprocessed() || retry == maxRetries && !full {
			call.sending.close(r)
			call.sending.settle()
			return nil, nil, err
		}
		next, rerr := call.again()
		if rerr != nil {
			call.sending.close(r)
			call.sending.settle()
			return nil, nil, err
		}
		r = next
		if full {
			retry--
			continue
		}
		if retry > 0 {
			backoff := time.Second << (retry - 1)
			timer := time.NewTimer(backoff + rand.N(backoff/10))
			select {
			case <-timer.C:
			case <-r.Context().Done():
				timer.Stop()
				closeBody(r)
				return nil, nil, r.Context().Err()
			}
		}
	}
}

// ended returns why ctx has ended, as http.Transport does before it sends a request; nil: it has not. Cause alone may be that of a
// parent from which ctx is detached.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// closeBody closes the body of a request that is not sent.
func closeBody(r *http.Request) {
	var b requestBody
	b.close(r)
	b.settle()
}

// authority returns the host and port that a URL's host means (RFC 9110 section 4.2), in ASCII (RFC 5891),
// as http.Transport does.
func authority(scheme, host string) string {
	port := "443"
	if scheme == "http" {
		port = "80"
	}
	u := url.URL{Host: host}
	if p := u.Port(); p != "" {
		port = p
	}
	name := u.Hostname()
	for i := range len(name) {
		if name[i] < utf8.RuneSelf {
			continue
		}
		if ascii, err := idna.Lookup.ToASCII(name); err == nil { // otherwise dialling fails
			name = ascii
		}
		break
	}
	return net.JoinHostPort(name, port)
}

// ConfigureTransport makes tr use this package for HTTP/2, over TLS and, where
// tr.Protocols permits that without HTTP/1, unencrypted. It must be called before tr's
// first request, and after Protocols and TLSClientConfig are set: it sets tr.TLSNextProto and, where
// Protocols is nil, ForceAttemptHTTP2, and adds to tr.TLSClientConfig and the protocols of RegisterProtocol. The other fields count as they are
// at the first request. A nil conf is the zero Config. Dialling, proxies and HTTP/1.1 stay net/http's.
//
// A Transport that tr.Clone returns has net/http's HTTP/2, with connections and settings of its own, until it is passed to
// ConfigureTransport, too.
//
// Errors: a setting of tr.HTTP2 that cannot be honoured, a Transport that has an
// HTTP/2 implementation already or protocols of its own in TLSNextProto, and one that has been used or cloned while
// TLSNextProto was an empty map. After an error tr must not be used. There is no error, and tr.CloseIdleConnections does not close
// tr's HTTP/2 connections, if tr has been used before and net/http then had no HTTP/2 for it, as with a TLSClientConfig and neither Protocols nor
// ForceAttemptHTTP2; and with GODEBUG=http2client=0, used or not.
func ConfigureTransport(tr *http.Transport, conf *Config) (err error) {
	if tr.TLSNextProto[protoTLS] != nil {
		return errors.New("h2http: the http.Transport has an HTTP/2 implementation already")
	}
	if len(tr.TLSNextProto) > 0 {
		return errors.New("h2http: the http.Transport has protocols of its own in TLSNextProto")
	}
	own := conf.orDefault()
	settings := func() clientSettings {
		return clientSettings{
			conf:            tr.HTTP2,
			own:             own,
			maxHeader:       tr.MaxResponseHeaderBytes,
			idle:            tr.IdleConnTimeout,
			headerTimeout:   tr.ResponseHeaderTimeout,
			continueTimeout: tr.ExpectContinueTimeout,
			plainResponses:  tr.DisableCompression,
			singleUse:       tr.DisableKeepAlives,
			maxConns:        tr.MaxConnsPerHost,
		}
	}
	pool, err := newClientPool(settings())
	if err != nil {
		return err
	}
	pool.reread = settings
	http1 := tr.Protocols == nil || tr.Protocols.HTTP1()
	unencrypted := tr.Protocols != nil && tr.Protocols.UnencryptedHTTP2() && !http1
	if err := register(tr, "https", pool); err != nil {
		return err
	}
	if unencrypted {
		if err := register(tr, "http", pool); err != nil {
			return err
		}
	}
	// Clone copies TLSNextProto unless it is nil at the first use, of which Clone is one. The functions below, copied, would mix the
	// clone's connections with tr's, whatever has verified them, and apply tr's settings to its requests.
	tr.TLSNextProto = nil
	if tr.Clone().TLSNextProto != nil {
		return errors.New("h2http: the http.Transport has been used or cloned with an empty TLSNextProto")
	}
	tr.ForceAttemptHTTP2 = tr.ForceAttemptHTTP2 || tr.Protocols == nil // for clones: they have a TLSClientConfig, which offers HTTP/2
	if tr.TLSClientConfig == nil {
		tr.TLSClientConfig = new(tls.Config)
	}
	protos := slices.DeleteFunc(slices.Clone(tr.TLSClientConfig.NextProtos), func(s string) bool { return s == protoTLS || s == "http/1.1" })
	if tr.Protocols == nil || tr.Protocols.HTTP2() {
		protos = append([]string{protoTLS}, protos...)
	}
	if http1 {
		protos = append(protos, "http/1.1")
	}
	tr.TLSClientConfig.NextProtos = protos
	tr.TLSNextProto = make(map[string]func(string, *tls.Conn) http.RoundTripper)
	tr.TLSNextProto[protoTLS] = func(addr string, c *tls.Conn) http.RoundTripper {
		return pool.adopt("https", addr, c)
	}
	tr.TLSNextProto[protoUnencrypted] = func(addr string, c *tls.Conn) http.RoundTripper {
		if u, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok {
			return pool.adopt("http", addr, u.UnencryptedNetConn())
		}
		go c.Close()
		return failing{errors.New("h2http: a TLS connection where an unencrypted one was expected")}
	}
	return nil
}

// pooled is what is registered with an http.Transport for a scheme: it serves from the
// pool, or has the Transport dial. Its shape, a struct of one exported field, is how
// http.Transport.CloseIdleConnections finds the pool.
type pooled struct{ Pool *clientPool }

// RoundTrip sends r if there is a connection for it.
func (p pooled) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.Pool.roundTrip(r, nil, notDialing)
	if errors.Is(err, noConnError{}) {
		return nil, http.ErrSkipAltProtocol
	}
	return resp, err
}

func register(tr *http.Transport, scheme string, pool *clientPool) (err error) {
	defer func() {
		if recover() != nil { // RegisterProtocol panics when the scheme has a RoundTripper
			err = fmt.Errorf("h2http: the http.Transport has a RoundTripper for %s already", scheme)
		}
	}()
	tr.RegisterProtocol(scheme, pooled{pool})
	return nil
}

// failing is a RoundTripper for a connection that cannot be used.
type failing struct{ err error }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	closeBody(r)
	return nil, f.err
}

// RoundTripErr is what http.Transport asks before it uses the connection.
func (f failing) RoundTripErr() error { return f.err }
