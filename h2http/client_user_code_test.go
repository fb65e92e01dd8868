package h2http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stuck is what a request's user has made to block until the test ends.
type stuck struct{ release chan struct{} }

func (s stuck) wait() { <-s.release }

// stuckBody is a request body.
type stuckBody struct {
	first io.Reader // read before read is called
	read  func() (int, error)
	close func()
}

func (b *stuckBody) Read(p []byte) (int, error) {
	if n, err := b.first.Read(p); err == nil {
		return n, nil
	}
	return b.read()
}

func (b *stuckBody) Close() error {
	b.close()
	return nil
}

// userCode is a request in which code of the user's does not return.
var userCode = []struct {
	name string
	set  func(r *http.Request, s stuck)
	kind stuckKind
}{
	{"Read blocks", func(r *http.Request, s stuck) { setBody(r, s.read, func() {}) }, stuckInBody},
	{"Read and Close block", func(r *http.Request, s stuck) { setBody(r, s.read, s.wait) }, stuckInBody},
	{"Close blocks", func(r *http.Request, s stuck) { setBody(r, eof, s.wait) }, stuckInBody},
	{"Close ends its goroutine", func(r *http.Request, s stuck) { setBody(r, eof, runtime.Goexit) }, stuckInBody},
	{"Read of a short body blocks", func(r *http.Request, s stuck) { setShort(r, 8, s.read, func() {}) }, stuckInBody},
	{"Read and Close of a short body block", func(r *http.Request, s stuck) { setShort(r, 8, s.read, s.wait) }, stuckInBody},
	{"Close of a short body blocks", func(r *http.Request, s stuck) { setShort(r, 4, eof, s.wait) }, stuckInBody},
	{"GotConn blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { s.wait() }})
	}, stuckInHook},
	{"WroteHeaderField blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { s.wait() }})
	}, stuckInHook},
	{"WroteHeaders blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{WroteHeaders: s.wait})
	}, stuckInHook},
	{"WroteRequest blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { s.wait() }})
	}, stuckInHook},
	{"GotFirstResponseByte blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{GotFirstResponseByte: s.wait})
	}, stuckInHook},
	{"Got1xxResponse blocks", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { s.wait(); return nil }})
	}, stuckInHook},
	{"Got100Continue blocks", func(r *http.Request, s stuck) {
		setBody(r, eof, func() {})
		r.Header.Set("Expect", "100-continue")
		trace(r, &httptrace.ClientTrace{Got100Continue: s.wait})
	}, stuckInHook},
	{"Wait100Continue blocks", func(r *http.Request, s stuck) {
		setBody(r, eof, func() {})
		r.Header.Set("Expect", "100-continue")
		trace(r, &httptrace.ClientTrace{Wait100Continue: s.wait})
	}, stuckInHook},
	{"hooks end their goroutines", func(r *http.Request, s stuck) {
		trace(r, &httptrace.ClientTrace{WroteHeaders: runtime.Goexit, GotFirstResponseByte: runtime.Goexit})
	}, stuckInBody},
}

type stuckKind uint8

const (
	stuckInBody stuckKind = iota // the response comes nevertheless
	stuckInHook                  // the response comes after the hook
)

func (s stuck) read() (int, error) {
	s.wait()
	return 0, io.ErrUnexpectedEOF
}

func eof() (int, error) { return 0, io.EOF }

func setBody(r *http.Request, read func() (int, error), close func()) {
	r.Method, r.Body, r.ContentLength = "POST", &stuckBody{strings.NewReader("half"), read, close}, -1
}

// setShort is setBody with a length and GetBody, which say that the body is in memory.
func setShort(r *http.Request, length int64, read func() (int, error), close func()) {
	setBody(r, read, close)
	r.ContentLength = length
	r.GetBody = func() (io.ReadCloser, error) { return r.Body, nil }
}

func trace(r *http.Request, c *httptrace.ClientTrace) {
	*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), c))
}

// userClient returns a client of one connection to base, and what ends that when it is idle.
func userClient(t *testing.T, s clientStack, single bool, set *clientSetup, base string) (rt http.RoundTripper, end func()) {
	rt = s.make(t, set)
	if !single {
		return rt, rt.(interface{ CloseIdleConnections() }).CloseIdleConnections
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := rt.(*http.Transport).NewClientConn(t.Context(), u.Scheme, u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return cc, func() { cc.Close() }
}

// closing is a connection that says when it is closed.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestUserCodeThatBlocks has code of the user's block, or end its goroutine. What another part of the user's program waits for comes
// nevertheless: the response (after the hooks that are called before), the end of RoundTrip when the context ends, Close of the
// response's body, other requests on the connection, and the connection's end.
func TestUserCodeThatBlocks(t *testing.T) {
	for _, stack := range clientStacks {
		for _, single := range []bool{false, true} {
			if !stack.own || stack.tls || single && stack.name == "Transport" {
				continue // net/http waits in nearly all cases; Transport has no NewClientConn
			}
			for _, c := range userCode {
				for _, path := range []string{"/answer", "/never"} {
					t.Run(fmt.Sprintf("%s/single=%v/%s%s", stack.name, single, c.name, path), func(t *testing.T) {
						testUserCodeThatBlocks(t, stack, single, c.set, c.kind, path)
					})
				}
			}
		}
	}
}

func testUserCodeThatBlocks(t *testing.T, stack clientStack, single bool, set func(*http.Request, stuck), kind stuckKind, path string) {
	began := make(chan struct{})
	o := startOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/answer":
			w.WriteHeader(http.StatusContinue)
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "answer")
			close(began)
		case "/never":
			w.WriteHeader(http.StatusContinue)
			w.WriteHeader(http.StatusEarlyHints)
			close(began)
			<-r.Context().Done()
		}
	}))
	conns := make(chan *closing, 10)
	setup := new(clientSetup)
	setup.tr.ExpectContinueTimeout = time.Minute
	setup.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &closing{Conn: nc, closed: make(chan struct{})}
		conns <- c
		return c, nil
	}
	rt, end := userClient(t, stack, single, setup, o.url)
	other, _ := http.NewRequest("GET", o.url, nil)
	mustRoundTrip(t, rt, other)

	s := stuck{make(chan struct{})}
	defer close(s.release)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", o.url+path, nil)
	set(req, s)
	done := make(chan error, 1)
	go func() {
		resp, err := rt.RoundTrip(req)
		if err == nil {
			b, rerr := io.ReadAll(resp.Body)
			if string(b) != "answer" || rerr != nil {
				t.Errorf("read %q, %v", b, rerr)
			}
			resp.Body.Close()
		}
		done <- err
	}()
	timeout := time.After(20 * time.Second)
	select {
	case <-began:
	case <-timeout:
		t.Fatal("the request has not come")
	}
	mustRoundTrip(t, rt, other.Clone(context.Background()))
	if path == "/never" || kind == stuckInHook {
		cancel()
	}
	select {
	case err := <-done:
		if path == "/answer" && kind != stuckInHook && err != nil || err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-timeout:
		t.Fatal("RoundTrip or Close has not returned")
	}
	mustRoundTrip(t, rt, other.Clone(context.Background()))
	end()
	select {
	case <-(<-conns).closed:
	case <-timeout:
		t.Error("the connection has not ended")
	}
}

// TestDialThatIgnoresItsContext has the first dial not return: its request ends with its context, and the next request dials again.
func TestDialThatIgnoresItsContext(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		o := startOrigin(t, s.tls, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		began, release := make(chan struct{}), make(chan struct{})
		late := make(chan net.Conn, 1)
		var dials atomic.Int32
		rt := s.make(t, &clientSetup{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			close(began)
			<-release
			a, b := net.Pipe()
			late <- b
			return a, nil
		}})
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", o.url, nil)
		failed := make(chan error, 1)
		go func() {
			_, err := rt.RoundTrip(req)
			failed <- err
		}()
		<-began
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		mustRoundTrip(t, rt, req.Clone(context.Background()))
		close(release)
		b := <-late // the connection that comes late is used or closed, and does not stay behind
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		b.Close()
	})
}
