package h2http_test

import (
	"bytes"
	"fmt"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// notes is what a handler has seen.
type notes struct {
	mu   sync.Mutex
	list []string
	done chan struct{} // closed when the handler has returned
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

// semantics is one fact about net/http: a handler, what a client sends to it, and so
// what the handler sees and what is sent back.
type semantics struct {
	name    string
	handler func(n *notes, w http.ResponseWriter, r *http.Request)
	client  func(p *peer)        // on stream 1; nil: GET / without content
	server  func(s *http.Server) // settings; nil: none
	// timeout sets a timeout of the server, which is tried with longer ones while the answer lacks inTime, what the
	// handler does before the timeout, or the connection ends before the answer does, in the handshake for one: on a busy
	// machine that may take long. nil: none.
	timeout func(s *http.Server, d time.Duration)
	inTime  string
	// netHTTP is what net/http's HTTP/2 does where this package does something else,
	// and differs says why. Empty: they are equal.
	netHTTP, differs string
	want             string // of this package where netHTTP is set
}

// run returns what is seen and sent with s. It fails the test when no try was in time, so that two stacks of which neither
// answered are not taken for equal.
func (c *semantics) run(t *testing.T, s stack) string {
	t.Helper()
	for d := 100 * time.Millisecond; ; d *= 4 {
		got := c.runOnce(t, s, d)
		if c.timeout == nil || got != "" && strings.Contains(got, c.inTime) {
			return got
		}
		if d > lastTry {
			t.Fatalf("no answer has %q, with a timeout of %v, too: %s", c.inTime, d, clip(got))
		}
	}
}

// runOnce is run with one timeout.
func (c *semantics) runOnce(t *testing.T, s stack, timeout time.Duration) string {
	n := &notes{done: make(chan struct{})}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(n.done)
		c.handler(n, w, r)
	})
	var logged lockedBuffer
	r := s.start(t, h, func(srv *http.Server) {
		srv.ErrorLog = log.New(&logged, "", 0)
		if c.server != nil {
			c.server(srv)
		}
		if c.timeout != nil {
			c.timeout(srv, timeout)
		}
	})
	p, err := r.connect(t)
	if err != nil {
		if c.timeout != nil {
			return ""
		}
		t.Fatal(err)
	}
	if c.client == nil {
		p.request(1, end, "GET", "/")
	} else {
		c.client(p)
	}
	if c.timeout != nil && !p.ends(1) {
		return ""
	}
	wire := p.transcript(1)
	if !strings.Contains(c.name, "no handler") {
		select {
		case <-n.done:
		case <-time.After(untilLimit):
			t.Fatalf("the handler has not returned, or was not called:\n%s", clip(wire))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(append(n.list, wire), "\n")
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSemantics compares each way of serving with net/http's HTTP/2. What is logged is not compared.
func TestSemantics(t *testing.T) {
	for _, c := range slices.Concat(responseSemantics, requestSemantics, fieldSemantics, lifeSemantics, endSemantics) {
		t.Run(c.name, func(t *testing.T) {
			var want string
			for i, s := range stacks {
				t.Run(s.name, func(t *testing.T) {
					got := c.run(t, s)
					switch {
					case i == 0 && c.differs != "":
						if got != c.netHTTP {
							t.Errorf("net/http does not do what is noted as different:\n%s", clip(got))
						}
						want = c.want
					case i == 0:
						want = got
					case !s.own && c.differs != "":
					case got != want:
						t.Errorf("got\n%s\nwant\n%s", clip(got), clip(want))
					}
				})
			}
		})
	}
}

func clip(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "…"
	}
	return s
}

// dump notes a request.
func dump(n *notes, r *http.Request) {
	n.add("%s %s %s host=%s length=%d form=%v", r.Method, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.TransferEncoding)
	n.add("url %s path=%q raw=%q query=%q host=%q", r.URL, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.Host)
	n.header("header", r.Header)
	n.header("trailer", r.Trailer)
	n.add("body %t close %t", r.Body != nil, r.Close)
}

func (n *notes) header(what string, h http.Header) {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		n.add("%s %s: %q", what, key, h[key])
	}
}
