package h2http_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// randomSeeds are those of exchanges that have shown a difference once, besides those that TestRandomExchanges begins with.
var randomSeeds = []uint64{1049, 1339, 1443}

// randomExchange is a request and what a handler does with it, chosen at random. It leaves out what docs/reference/h2http.md lists as different.
type randomExchange struct {
	seed     uint64
	method   string
	target   string
	host     string
	fields   http.Header
	body     []byte
	form     bodyForm
	trailers http.Header
	cut      int // bytes of the response that the caller reads; -1: all
	acts     []act
}

type bodyForm uint8

const (
	bodyless bodyForm = iota
	knownBody
	unknownBody
	pieceBody // of known length, in pieces, without GetBody
)

// act is one thing that a handler does.
type act struct {
	kind  actKind
	n     int
	key   string
	value []string
}

type actKind uint8

const (
	setField actKind = iota
	addField
	informational
	writeHeader
	write
	writeText
	readFrom
	flush
	readSome
	readAll
	closeBody
	declareTrailer
	setTrailer
	prefixTrailer
	contentLength
	abort
	encode // gzip, when the client asks for that
	actKinds
)

var (
	randomMethods  = []string{"GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "x-y"}
	randomTargets  = []string{"/", "/a/b", "/a%2Fb", "/%C3%A9?q=%20&r", "//x/y", "/a;b=c", "/a/../b", "/?", "/a?b?c#d", "/~u/!$&'()*+,=:@", "/" + strings.Repeat("p", 3000)}
	randomHosts    = []string{"", "", "", "other.example", "other.example:8443", "UPPER.example"}
	randomNames    = []string{"A", "X-Long-Name", "Accept", "Cookie", "User-Agent", "Accept-Encoding", "Range", "Content-Type", "Content-Encoding", "Referer", "Authorization", "Te", "If-None-Match", "Priority", "Connection", "Cache-Control"}
	randomValues   = []string{"", "x", "a, b", "a;q=0.5", "\"quoted\"", "gzip", "trailers", "close", "bytes=0-3", "u=1, i", "a=b; c=d", "é", strings.Repeat("v", 5000)}
	replyNames     = []string{"A", "X-Long-Name", "Content-Type", "Cache-Control", "Set-Cookie", "Vary", "Etag", "Location", "Link", "Server", "X-Content-Type-Options", "Date"}
	randomStatuses = []int{200, 200, 200, 201, 204, 206, 299, 301, 304, 404, 418, 500, 503, 599}
	randomSizes    = []int{0, 1, 10, 511, 513, 4095, 4096, 4097, 20000, 70000, 200000}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func newRandomExchange(seed uint64) *randomExchange {
	r := rand.New(rand.NewPCG(seed, 34))
	x := &randomExchange{seed: seed, method: pick(r, randomMethods), target: pick(r, randomTargets), host: pick(r, randomHosts), fields: make(http.Header), cut: -1}
	for range r.IntN(5) {
		name, value := pick(r, randomNames), pick(r, randomValues)
		switch {
		case name == "Te" && value != "trailers", name == "Connection" && value != "close", name == "Priority" && value == "é":
			continue
		}
		if x.fields[name] == nil || name == "A" || name == "Cookie" && value != "" || name == "Accept" {
			x.fields[name] = append(x.fields[name], value)
		}
	}
	if r.IntN(2) == 0 && x.method != "GET" && x.method != "HEAD" {
		x.form = bodyForm(1 + r.IntN(3))
		x.body = content(pick(r, randomSizes), seed)
		if len(x.body) == 0 {
			x.form = unknownBody
		}
		if r.IntN(3) == 0 {
			x.fields.Set("Expect", "100-continue")
		}
		if r.IntN(3) == 0 {
			x.trailers = http.Header{"X-T": {pick(r, randomValues[1:3])}, "Y-T": {"1", "2"}}
			x.form = unknownBody
		}
	}
	if r.IntN(6) == 0 {
		x.cut = pick(r, randomSizes)
	}
	status, length, total, encoded, closed := 0, -1, 0, false, false
	for range r.IntN(9) {
		a := act{kind: actKind(r.IntN(int(actKinds)))}
		switch a.kind {
		case setField, addField:
			a.key, a.value = pick(r, replyNames), []string{pick(r, randomValues)}
			if a.key == "Date" || a.key == "Content-Type" && a.value[0] == "" {
				a.value = []string{"x"}
			}
		case informational:
			if status != 0 || length >= 0 {
				continue
			}
			a.n = pick(r, []int{102, 103, 199})
		case writeHeader:
			if status != 0 {
				continue // a second one is logged
			}
			if a.n = pick(r, randomStatuses); length >= 0 { // it is written, which 204 and 304 do not permit
				a.n = 200
			}
			status = a.n
		case write, writeText, readFrom:
			if length >= 0 || encoded || x.method == "HEAD" {
				continue
			}
			a.n = pick(r, randomSizes)
			total += a.n
			status = max(status, 1)
		case flush, readSome, readAll, closeBody:
			if closed && a.kind != flush {
				continue // HTTP/2 of net/http goes on to return io.EOF
			}
			closed = closed || a.kind == closeBody
			a.n = pick(r, randomSizes)
			if a.kind == flush {
				status = max(status, 1)
			}
		case declareTrailer, setTrailer, prefixTrailer:
			if a.kind == declareTrailer && status != 0 {
				continue
			}
			a.key, a.value = pick(r, []string{"X-R", "Y-R"}), []string{pick(r, randomValues[1:4])}
		case contentLength:
			if status != 0 || length >= 0 || total > 0 {
				continue
			}
			length = pick(r, randomSizes)
			a.n = length
		case abort:
			if r.IntN(4) != 0 {
				continue
			}
		case encode:
			if status != 0 || length >= 0 {
				continue
			}
			status, encoded = 1, true // what followed would not be gzip
		}
		x.acts = append(x.acts, a)
	}
	if length >= 0 && x.method != "HEAD" && (status < 2 || status != 204 && status != 304) { // what was declared is written
		x.acts = append(x.acts, act{kind: write, n: length})
	}
	if x.form != bodyless && status > 299 { // otherwise the client stops sending, now or later
		x.acts = slices.Insert(x.acts, 0, act{kind: readAll})
	}
	return x
}

func content(n int, seed uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte((uint64(i)*7+seed)%26)
	}
	return b
}

// serve is the handler's part.
func (x *randomExchange) serve(n *notes, w http.ResponseWriter, r *http.Request) {
	n.add("%s %s %.40q %.40q %.40q %s %d %v", r.Method, r.Host, r.URL.String(), r.URL.RawPath, r.RequestURI, r.Proto, r.ContentLength, r.Close)
	n.add("%s", shown(r.Header))
	n.add("trailer keys %v", slices.Sorted(maps.Keys(r.Trailer)))
	rc := http.NewResponseController(w)
	did := func(what string, m int64, err error) {
		if x.cut < 0 && x.method != "HEAD" { // otherwise the client may have gone, and with net/http Flush fails
			n.add("%s %d %s", what, m, kindOf(err))
		}
	}
	for _, a := range x.acts {
		switch a.kind {
		case setField:
			w.Header()[a.key] = a.value
		case addField:
			w.Header().Add(a.key, a.value[0])
		case informational, writeHeader:
			w.WriteHeader(a.n)
		case write:
			m, err := w.Write(content(a.n, x.seed))
			did("wrote", int64(m), err)
		case writeText:
			text := string(content(a.n, x.seed)) // a handler that has a string
			m, err := io.WriteString(w, text)
			did("wrote", int64(m), err)
		case readFrom:
			m, err := io.Copy(w, io.LimitReader(bytes.NewReader(content(a.n, x.seed)), int64(a.n)))
			did("copied", m, err)
		case flush:
			did("flushed", 0, rc.Flush())
		case readSome:
			m, err := io.ReadFull(r.Body, make([]byte, a.n))
			did("read", int64(m), err)
		case readAll:
			b, err := io.ReadAll(r.Body)
			if did("read", int64(len(b)), err); x.cut < 0 {
				n.add("%t %s", bytes.HasSuffix(x.body, b), shown(r.Trailer))
			}
		case closeBody:
			n.add("closed %s", kindOf(r.Body.Close()))
		case declareTrailer:
			w.Header().Add("Trailer", a.key)
		case setTrailer:
			w.Header()[a.key] = a.value
		case prefixTrailer:
			w.Header()[http.TrailerPrefix+a.key] = a.value
		case contentLength:
			w.Header().Set("Content-Length", strconv.Itoa(a.n))
		case abort:
			panic(http.ErrAbortHandler)
		case encode:
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Method != "HEAD" {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				z.Write(content(5000, x.seed))
				z.Close()
			}
		}
	}
}

// do is the client's part; it returns what the caller sees.
func (x *randomExchange) do(rt http.RoundTripper, base string) string {
	n := new(notes)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code != 100 { // it may come behind the response's beginning
				n.add("informational %d %s", code, shown(http.Header(h)))
			}
			return nil
		},
	})
	var body io.Reader
	switch x.form {
	case knownBody:
		body = bytes.NewReader(x.body)
	case unknownBody, pieceBody:
		half := len(x.body) / 2
		body = io.MultiReader(bytes.NewReader(x.body[:half]), bytes.NewReader(x.body[half:]))
	}
	req, err := http.NewRequestWithContext(ctx, x.method, base+x.target, body)
	if err != nil {
		return err.Error()
	}
	if x.form == pieceBody {
		req.ContentLength = int64(len(x.body))
	}
	req.Header = x.fields.Clone()
	req.Header.Set("X-Seed", strconv.FormatUint(x.seed, 10))
	req.Host, req.Trailer = x.host, x.trailers.Clone()
	if x.host == "" {
		req.Host = "origin.example"
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		n.add("failed: %s", kindOf(err))
		return strings.Join(n.list, "\n")
	}
	n.mu.Lock()
	before := slices.Clone(n.list)
	n.mu.Unlock()
	var b []byte
	if x.cut >= 0 {
		b, err = io.ReadAll(io.LimitReader(resp.Body, int64(x.cut)))
	} else {
		b, err = io.ReadAll(resp.Body)
	}
	got := fmt.Sprintf("%d bytes", len(b))
	if err != nil { // how much has come before is a matter of chance
		got = "some bytes"
	}
	trailers := ""
	if err == nil && x.cut < 0 {
		trailers = shown(resp.Trailer)
	}
	resp.Body.Close()
	if resp.Trailer != nil && len(b) == 0 { // whether an empty frame follows the header, for trailers that are not set
		resp.ContentLength = 0
	}
	return fmt.Sprintf("%s\n%s %d %s length=%d uncompressed=%t\n%s\n%s %s trailers %s", strings.Join(before, "\n"), resp.Proto, resp.StatusCode, resp.Status,
		resp.ContentLength, resp.Uncompressed, shown(resp.Header), got, kindOf(err), trailers)
}

// shown returns a header without what differs by chance.
func shown(h http.Header) string {
	h = h.Clone()
	if d := h["Date"]; len(d) > 0 && d[0] != "x" {
		h["Date"] = []string{"…"}
	}
	h.Del("X-Seed")
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, "%s=%.20q(%d) ", key, h[key], len(strings.Join(h[key], "")))
	}
	return b.String()
}

// kindOf returns what kind of an error err is.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, http.ErrBodyNotAllowed, http.ErrContentLength, http.ErrBodyReadAfterClose, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err.Error() == "body closed by handler" { // net/http's for ErrBodyReadAfterClose
		return http.ErrBodyReadAfterClose.Error()
	}
	for _, code := range []string{"INTERNAL_ERROR", "PROTOCOL_ERROR", "NO_ERROR", "CANCEL", "REFUSED_STREAM"} {
		if strings.Contains(err.Error(), code) {
			return code
		}
	}
	return "error"
}

// TestRandomExchanges has requests and handlers, chosen at random, meet over each pair of a client and a server, and compares what both
// see with what they see with net/http's. TARN_SEED is the first of the seeds; with TARN_LONG=1 there are more.
func TestRandomExchanges(t *testing.T) {
	first, count := uint64(1), uint64(250)
	if s := os.Getenv("TARN_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n
	}
	if os.Getenv("TARN_LONG") != "" {
		count = 20000
	}
	var mu sync.Mutex
	seen := make(map[string]*notes) // by pair and seed
	type pair struct {
		name string
		rt   http.RoundTripper
		url  string
	}
	var pairs []pair
	for _, s := range stacks {
		if s.tls {
			continue
		}
		for _, c := range clientStacks {
			if c.tls {
				continue
			}
			name := c.name + " to " + s.name
			silent := func(srv *http.Server) { srv.ErrorLog = log.New(io.Discard, "", 0) }
			r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				n := seen[name+r.Header.Get("X-Seed")]
				mu.Unlock()
				defer close(n.done)
				seed, _ := strconv.ParseUint(r.Header.Get("X-Seed"), 10, 64)
				newRandomExchange(seed).serve(n, w, r)
			}), silent)
			pairs = append(pairs, pair{name, c.make(t, new(clientSetup)), r.url})
		}
	}
	differ := 0
	try := func(seed uint64) {
		x := newRandomExchange(seed)
		var want string
		for i, p := range pairs {
			n := &notes{done: make(chan struct{})}
			mu.Lock()
			seen[p.name+strconv.FormatUint(seed, 10)] = n
			mu.Unlock()
			got := x.do(p.rt, p.url)
			select {
			case <-n.done:
			case <-time.After(5 * time.Second):
				if i == 0 && strings.HasPrefix(got, "failed") {
					return // net/http's client has used a connection that ends
				}
				n.add("the handler was not called, or has not returned")
			}
			mu.Lock()
			delete(seen, p.name+strconv.FormatUint(seed, 10))
			mu.Unlock()
			got = strings.Join(n.list, "\n") + "\n--\n" + got
			if i == 0 {
				want = got
			} else if got != want {
				differ++
				t.Errorf("seed %d, %s: %s %v %d %+v\n%s\nwant\n%s", seed, p.name, x.method, x.fields, x.cut, x.acts, got, want)
				return
			}
		}
	}
	for _, seed := range randomSeeds {
		try(seed)
	}
	for seed := first; seed < first+count && differ < 20; seed++ {
		try(seed)
	}
}
