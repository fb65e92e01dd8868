//lint:file-ignore SA1019 the HTTP/2 of x/net is a peer here

package h2http_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// message is what a fuzz target sends on a stream.
type message struct {
	fields   string // lines of name=value
	content  string
	trailers string // as fields
	shape    messageShape
}

// messageShape says which frames a message has. It always ends.
type messageShape uint8

const (
	withContent messageShape = 1 << iota
	inTwo                    // the content, after an empty frame
	withTrailers
	forHead // the request's method is HEAD; of responses
)

// list splits lines of fields in names and values.
func list(lines string) []string {
	var l []string
	for line := range strings.SplitSeq(lines, "\n") {
		if line != "" {
			name, value, _ := strings.Cut(line, "=")
			l = append(l, name, value)
		}
	}
	return l
}

// values returns the values of a field.
func values(list []string, name string) (v []string) {
	for i := 0; i < len(list); i += 2 {
		if list[i] == name {
			v = append(v, list[i+1])
		}
	}
	return v
}

// tooLong reports whether m does not fit in frames of 16 KiB, whatever its encoding.
func (m *message) tooLong() bool {
	return 2*len(m.fields) > 8<<10 || 2*len(m.trailers) > 8<<10 || len(m.content) > 8<<10
}

// send sends m on stream 1.
func (m *message) send(p *peer) {
	more := withContent | withTrailers
	p.headers(1, endsUnless(m.shape&more), list(m.fields)...)
	if m.shape&withContent != 0 {
		last := endsUnless(m.shape & withTrailers)
		if n := len(m.content) / 2; m.shape&inTwo != 0 {
			p.data(1, 0, "")
			p.data(1, 0, m.content[:n])
			p.data(1, last, m.content[n:])
		} else {
			p.data(1, last, m.content)
		}
	}
	if m.shape&withTrailers != 0 {
		p.headers(1, end, list(m.trailers)...)
	}
}

func endsUnless(s messageShape) ended {
	if s != 0 {
		return more
	}
	return end
}

// seenField is the response's field for what a fuzzed handler has seen.
const seenField = "x-seen"

// describe returns a request as a handler sees it. The second result says why a handler should not have seen it.
func describe(r *http.Request) (seen, bad string) {
	b, err := io.ReadAll(r.Body)
	n := new(notes)
	dump(n, r)
	n.add("%q failed=%t", b, err != nil)
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method):
		bad = "method"
	case r.URL == nil || r.RequestURI == "" && r.Method != "CONNECT":
		bad = "target"
	case err == nil && r.ContentLength >= 0 && int64(len(b)) != r.ContentLength:
		bad = "length"
	case err != nil && errors.Is(err, io.EOF):
		bad = "end"
	}
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for key, values := range h {
			if values == nil {
				continue // announced: net/http takes any name, too
			}
			if !httpguts.ValidHeaderFieldName(key) || key != http.CanonicalHeaderKey(key) {
				bad = "name " + key
			}
			switch key {
			case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Host":
				bad = "name " + key
			}
			for _, v := range values {
				if key == "Cookie" {
					v = strings.TrimSuffix(v, "; ") // the last crumb may be empty
				}
				if !httpguts.ValidHeaderFieldValue(v) || v != strings.Trim(v, " \t") {
					bad = "value of " + key
				}
			}
		}
	}
	return strings.Join(n.list, "\n"), bad
}

// FuzzRequests: a message on a new connection of a server. A handler gets well-formed requests only, and what net/http's handler gets;
// those that net/http's handler gets and this package's does not are malformed in one of the ways that docs/reference/h2http.md lists.
func FuzzRequests(f *testing.F) {
	const get = ":method=GET\n:scheme=http\n:path=/a?b\n:authority=example.com\n"
	const post = ":method=POST\n:scheme=https\n:path=/\n:authority=example.com:81\n"
	for _, m := range []message{
		{fields: get + "accept=*/*\ncookie=a=b\ncookie=c=d\nx-a=1\nx-a=2"},
		{fields: get + "expect=100-continue\nrange=bytes=0-1\nhost=example.com"},
		{fields: post + "content-length=5\ncontent-type=text/plain", content: "12345", shape: withContent},
		{fields: post + "content-length=6\nexpect=100-continue", content: "12345", shape: withContent | inTwo},
		{fields: post + "trailer=x-a, x-b\nte=trailers", content: "12345", trailers: "x-a=1\nx-b=2\nx-c=3", shape: withContent | withTrailers},
		{fields: post + "trailer=x-a", trailers: "x-a=1", shape: withTrailers},
		{fields: ":method=CONNECT\n:authority=example.com:443", content: "abc", shape: withContent},
		{fields: ":method=OPTIONS\n:scheme=http\n:path=*\nhost=example.com"},
		{fields: ":method=HEAD\n:scheme=http\n:path=http://example.com/%2f%zz\n:authority=user@example.com"},
		{fields: get + "ho{=x"},
		{fields: get + "expect=100-continue\nexpect=x\nexpect=y, 100-Continue"},
		{fields: get + "expect=x\nexpect=y"},
		{fields: get + "connection=close\nte=gzip\ncontent-length=1\ncontent-length=2\nX-A= 1"},
	} {
		f.Add(m.fields, m.content, m.trailers, uint8(m.shape))
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, bad := describe(r)
		w.Header().Set(seenField, strconv.QuoteToASCII(seen))
		w.Header().Set("x-bad", strconv.QuoteToASCII(bad))
	})
	quiet := func(srv *http.Server) {
		srv.ErrorLog = log.New(io.Discard, "", 0)
		srv.DisableGeneralOptionsHandler = true
	}
	var rigs []*rig
	for _, s := range stacks {
		if s.name == "net/http" || s.name == "Serve" {
			l, err := net.Listen("tcp", "127.0.0.1:0") // whichever network is chosen: its relays may not use f in the target
			if err != nil {
				f.Fatal(err)
			}
			rigs = append(rigs, s.startOn(f, l, new(net.Dialer).DialContext, h, h2.Limits{}, quiet))
		}
	}
	f.Fuzz(func(t *testing.T, fields, content, trailers string, shape uint8) {
		m := &message{fields, content, trailers, messageShape(shape)}
		if m.tooLong() {
			return
		}
		want, _ := m.request(t, rigs[0])
		got, bad := m.request(t, rigs[1])
		if bad != `""` && bad != "" {
			t.Errorf("the handler has got a request with a malformed %s:\n%s", bad, got)
		}
		switch {
		case got == "":
			if want != "" && !m.refusedHere() {
				t.Errorf("no handler is called, and net/http's is:\n%s", want)
			}
		case normal(got) != normal(want):
			t.Errorf("got\n%s\nwant\n%s", normal(got), normal(want))
		}
	})
}

// request sends m to a server and returns what its handler has seen of it; nothing: it has not been called, or its answer is not sent.
func (m *message) request(t *testing.T, r *rig) (seen, bad string) {
	p := r.dialPeer(t)
	defer p.nc.Close()
	m.send(p)
	answered := false
	p.until("end of the stream, GOAWAY or end of the connection", func() bool {
		s := p.streams[1]
		answered = s != nil && s.ended
		return answered || p.goAway != nil || p.err != nil // net/http closes a connection a second after its GOAWAY
	})
	if !answered {
		return "", ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.streams[1].events {
		if _, rest, ok := strings.Cut(e, " "+seenField+"="); ok {
			_, bad, _ = strings.Cut(e, " x-bad=")
			bad, _ = strconv.QuotedPrefix(bad)
			seen, _ = strconv.QuotedPrefix(rest)
			seen, _ = strconv.Unquote(seen)
			return seen, bad
		}
	}
	return "", ""
}

// normal returns what a handler has seen without what docs/reference/h2http.md lists as different.
func normal(seen string) string {
	var l []string
	for line := range strings.SplitSeq(seen, "\n") {
		if strings.HasPrefix(line, "header Host: ") || line == "trailer : []" {
			continue
		}
		if strings.HasPrefix(line, "header Content-Length: ") {
			line, _, _ = strings.Cut(line, " \"")
		}
		l = append(l, line)
	}
	return strings.Join(l, "\n")
}

// refusedHere reports whether m is malformed in a way that net/http accepts and this package does not.
func (m *message) refusedHere() bool {
	l := list(m.fields)
	for i := 0; i < len(l); i += 2 {
		name, value := l[i], l[i+1]
		switch name {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
			return true
		case "te":
			if value != "trailers" {
				return true
			}
		case ":method":
			if !httpguts.ValidHeaderFieldName(value) {
				return true
			}
		case "content-length":
			if n, err := strconv.ParseUint(value, 10, 63); err != nil || n != uint64(m.length()) {
				return true
			}
		case "host", ":authority":
			for _, v := range slices.Concat(values(l, "host"), values(l, ":authority")) {
				if !strings.EqualFold(v, value) {
					return true
				}
			}
		}
		if strings.Trim(value, " \t") != value {
			return true
		}
	}
	for i, t := 0, list(m.trailers); i < len(t) && m.shape&withTrailers != 0; i += 2 {
		if strings.Trim(t[i+1], " \t") != t[i+1] {
			return true
		}
		switch t[i] {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te":
			return true
		}
	}
	return false
}

// length is how many bytes of content m has.
func (m *message) length() int {
	if m.shape&withContent == 0 {
		return 0
	}
	return len(m.content)
}

// FuzzResponses: a message for a client's request, after which the connection ends. The caller gets what net/http's does.
func FuzzResponses(f *testing.F) {
	for _, m := range []message{
		{fields: ":status=200\ncontent-length=5\nx-a=1\nx-a=2\nset-cookie=a", content: "12345", shape: withContent},
		{fields: ":status=200\ncontent-length=5", shape: forHead},
		{fields: ":status=200\ntrailer=x-a, x-b", content: "12345", trailers: "x-a=1\nx-b=2\nx-c=3", shape: withContent | inTwo | withTrailers},
		{fields: ":status=204\ndate=x", shape: 0},
		{fields: ":status=304\ncontent-length=100\netag=\"x\"", shape: 0},
		{fields: ":status=103\nlink=</a>", trailers: ":status=404\nx-a=1", shape: withTrailers},
		{fields: ":status=200\ncontent-encoding=gzip\ncontent-length=3", content: "abc", shape: withContent},
		{fields: ":status=200\ncontent-length=6\nconnection=close", content: "12345", shape: withContent},
		{fields: ":status=200\ntraile}=x", content: "12345", shape: withContent},
		{fields: ":status=200", content: "12345", trailers: ":status=\nx-a=1", shape: withContent | withTrailers},
		{fields: ":status=2000\n:path=/\ncontent-length=6, 6\nX-A= 1", content: "12345", shape: withContent},
	} {
		f.Add(m.fields, m.content, m.trailers, uint8(m.shape))
	}
	script := new(message)
	dial := func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go script.respond(b)
		return a, nil
	}
	own := &h2http.Transport{DialContext: dial, Config: h2http.Config{Pool: tarntest.NewPool(f)}}
	f.Cleanup(own.CloseIdleConnections)
	theirs := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, network, addr)
	}}
	f.Fuzz(func(t *testing.T, fields, content, trailers string, shape uint8) {
		script = &message{fields, content, trailers, messageShape(shape)}
		if script.tooLong() {
			return
		}
		want := script.get(theirs)
		got := script.get(own)
		if got != want && !(strings.HasPrefix(got, "error") && script.failsHere()) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// respond is the server's side of a connection: it answers stream 1 with m and ends the connection.
func (m *message) respond(nc net.Conn) {
	defer nc.Close()
	io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
	p := &peer{nc: nc, fr: http2.NewFramer(nc, nc)}
	p.fr.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.out)
	requested, taken := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(taken)
		for {
			f, err := p.fr.ReadFrame()
			if err != nil {
				close(requested)
				return
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				requested <- struct{}{}
			case *http2.PingFrame:
				if f.IsAck() {
					close(requested)
					return
				}
			}
		}
	}()
	p.fr.WriteSettings()
	<-requested
	m.send(p)
	p.fr.WritePing(false, [8]byte{}) // the client has taken all before it answers
	<-taken
}

// get makes a request, and returns what the caller gets.
func (m *message) get(rt http.RoundTripper) string {
	method := http.MethodGet
	if m.shape&forHead != 0 {
		method = http.MethodHead
	}
	req, _ := http.NewRequest(method, "http://example.com/", nil)
	req.Close = true // the connection ends
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		b, resp.Trailer = nil, nil // how much is read before the error, and whether trailers that follow it are seen, differs
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s %d %d uncompressed=%t %q failed=%t\n", resp.Status, resp.StatusCode, resp.ContentLength, resp.Uncompressed, b, err != nil)
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		for _, key := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&s, "%s: %q\n", key, h[key])
		}
	}
	return s.String()
}

// failsHere reports whether m is malformed in a way that net/http accepts and this package does not.
func (m *message) failsHere() bool {
	for i, l := 0, list(m.fields+"\n"+m.trailers); i < len(l); i += 2 {
		switch l[i] {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te":
			return true
		case ":status":
			if n, err := strconv.ParseUint(l[i+1], 10, 16); err != nil || n < 100 || len(l[i+1]) != 3 {
				return true
			}
		case "content-length":
			if _, err := strconv.ParseUint(l[i+1], 10, 63); err != nil {
				return true
			}
		}
		if strings.Trim(l[i+1], " \t") != l[i+1] {
			return true
		}
	}
	return false
}
