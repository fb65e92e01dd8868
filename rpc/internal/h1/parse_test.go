package h1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

const (
	line  = "POST /a.B/C HTTP/1.1\r\n"
	host  = "Host: x\r\n"
	typed = "Content-Type: application/json\r\n"
	sized = "Content-Length: 5\r\n"
	body  = "hello"
)

// ordinary are requests that are parsed here.
var ordinary = map[string]string{
	"shortest":         line + host + typed + sized + "\r\n" + body,
	"pipelined":        line + host + typed + sized + "\r\n" + body + line,
	"no body":          line + host + typed + "Content-Length: 0\r\n\r\n",
	"protobuf":         line + host + "content-type: application/proto\r\n" + sized + "\r\n" + body,
	"charset":          line + host + "Content-Type: application/json; charset=utf-8\r\n" + sized + "\r\n" + body,
	"port":             line + "Host: a-b.example:8080\r\n" + typed + sized + "\r\n" + body,
	"IPv6":             line + "Host: [::1]:8080\r\n" + typed + sized + "\r\n" + body,
	"no blank":         line + "Host:x\r\nContent-Type:application/json\r\nContent-Length:5\r\n\r\n" + body,
	"blanks":           line + "Host: \t x\t \r\n" + typed + "Content-Length:  5 \r\n\r\n" + body,
	"names in capital": line + "HOST: x\r\nCONTENT-TYPE: application/json\r\nCONTENT-LENGTH: 5\r\n\r\n" + body,
	"metadata":         line + host + typed + sized + "X-Some: a b\tc\r\nx-empty:\r\nx-SOME: 2\r\nx-bytes-bin: AAE\r\n!#$%&'*+-.^_`|~09azAZ: 1\r\n\r\n" + body,
	"keep-alive":       line + host + typed + sized + "Connection: Keep-Alive\r\nKeep-Alive: 5\r\n\r\n" + body,
	"close":            line + host + typed + sized + "connection: Close\r\n\r\n" + body,
	"close and keep":   line + host + typed + sized + "connection: close\r\nConnection: keep-alive\r\n\r\n" + body,
	"two types":        line + host + typed + typed + sized + "\r\n" + body,
	"browser": line + host + typed + sized + "Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nOrigin: https://app.example\r\nCookie: a=b; c=d\r\n" +
		"Connect-Protocol-Version: 1\r\nConnect-Timeout-Ms: 1000\r\n\r\n" + body,
}

// others are requests that are passed on, most of them of the kinds that request smuggling uses.
var others = map[string]string{
	"another method":           "PUT /a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"GET":                      "GET /a.B/C HTTP/1.1\r\n" + host + "\r\n",
	"method in lower case":     "post /a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"preface":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"HTTP/1.0":                 "POST /a.B/C HTTP/1.0\r\n" + host + typed + sized + "\r\n" + body,
	"HTTP/1.2":                 "POST /a.B/C HTTP/1.2\r\n" + host + typed + sized + "\r\n" + body,
	"version in lower case":    "POST /a.B/C http/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"no version":               "POST /a.B/C\r\n" + host + typed + sized + "\r\n" + body,
	"two blanks":               "POST  /a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"blank after the version":  "POST /a.B/C HTTP/1.1 \r\n" + host + typed + sized + "\r\n" + body,
	"tab":                      "POST\t/a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"absolute form":            "POST http://x/a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"asterisk form":            "POST * HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"query":                    "POST /a.B/C?x HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"fragment":                 "POST /a.B/C#x HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"percent":                  "POST /a.B/%43 HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"empty segment":            "POST //a.B/C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"one segment":              "POST /a.B HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"three segments":           "POST /a.B/C/D HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"backslash":                "POST /a.B\\C HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"line break first":         "\r\n" + line + host + typed + sized + "\r\n" + body,
	"no Host":                  line + typed + sized + "\r\n" + body,
	"two Hosts":                line + host + host + typed + sized + "\r\n" + body,
	"empty Host":               line + "Host:\r\n" + typed + sized + "\r\n" + body,
	"Host with a path":         line + "Host: x/y\r\n" + typed + sized + "\r\n" + body,
	"Host with userinfo":       line + "Host: y@x\r\n" + typed + sized + "\r\n" + body,
	"two lengths":              line + host + typed + sized + sized + "\r\n" + body,
	"two different lengths":    line + host + typed + sized + "Content-Length: 6\r\n\r\n" + body,
	"list of lengths":          line + host + typed + "Content-Length: 5, 5\r\n\r\n" + body,
	"signed length":            line + host + typed + "Content-Length: +5\r\n\r\n" + body,
	"negative length":          line + host + typed + "Content-Length: -5\r\n\r\n" + body,
	"hexadecimal length":       line + host + typed + "Content-Length: 0x5\r\n\r\n" + body,
	"length with zeros":        line + host + typed + "Content-Length: 05\r\n\r\n" + body,
	"length with a blank":      line + host + typed + "Content-Length: 5 5\r\n\r\n" + body,
	"empty length":             line + host + typed + "Content-Length:\r\n\r\n" + body,
	"long length":              line + host + typed + "Content-Length: 18446744073709551621\r\n\r\n" + body,
	"long body":                line + host + typed + fmt.Sprintf("Content-Length: %d\r\n\r\n", maxBody+1) + body,
	"no length":                line + host + typed + "\r\n" + body,
	"chunked":                  line + host + typed + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunked and length":       line + host + typed + sized + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"length and chunked":       line + host + typed + "Transfer-Encoding: chunked\r\n" + sized + "\r\n0\r\n\r\n",
	"unknown coding":           line + host + typed + sized + "transfer-encoding: xchunked\r\n\r\n" + body,
	"identity":                 line + host + typed + sized + "Transfer-Encoding: identity\r\n\r\n" + body,
	"coding with a tab":        line + host + typed + sized + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
	"blank before colon":       line + host + typed + sized + "Transfer-Encoding : chunked\r\n\r\n" + body,
	"blank before the length":  line + host + typed + "Content-Length : 5\r\n\r\n" + body,
	"folded":                   line + host + typed + sized + "X-A: b\r\n c\r\n\r\n" + body,
	"folded by a tab":          line + host + typed + "Content-Length:\r\n\t5\r\n\r\n" + body,
	"folded first":             line + " " + host + typed + sized + "\r\n" + body,
	"folded coding":            line + host + typed + sized + "Transfer-Encoding:\r\n chunked\r\n\r\n" + body,
	"bare LF":                  line + host + typed + "Content-Length: 5\n\r\n" + body,
	"bare LFs":                 strings.ReplaceAll(line+host+typed+sized+"\r\n", "\r", "") + body,
	"bare LF at the end":       line + host + typed + sized + "\n" + body,
	"bare CR":                  line + host + typed + sized + "X-A: b\rTransfer-Encoding: chunked\r\n\r\n" + body,
	"two CRs":                  line + host + typed + sized + "X-A: b\r\r\n\r\n" + body,
	"NUL in a value":           line + host + typed + sized + "X-A: \x00\r\n\r\n" + body,
	"NUL in a name":            line + host + typed + sized + "X\x00A: b\r\n\r\n" + body,
	"DEL":                      line + host + typed + sized + "X-A: \x7f\r\n\r\n" + body,
	"not ASCII":                line + host + typed + sized + "X-A: \xc3\xa9\r\n\r\n" + body,
	"vertical tab":             line + host + typed + sized + "Transfer-Encoding: \x0bchunked\r\n\r\n" + body,
	"no name":                  line + host + typed + sized + ": b\r\n\r\n" + body,
	"no colon":                 line + host + typed + sized + "X-A\r\n\r\n" + body,
	"no token":                 line + host + typed + sized + "X(A): b\r\n\r\n" + body,
	"Expect":                   line + host + typed + sized + "Expect: 100-continue\r\n\r\n" + body,
	"Upgrade":                  line + host + typed + sized + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + body,
	"hop-by-hop":               line + host + typed + sized + "Connection: close, Content-Length\r\n\r\n" + body,
	"TE":                       line + host + typed + sized + "TE: trailers\r\n\r\n" + body,
	"Trailer":                  line + host + typed + sized + "Trailer: X-A\r\n\r\n" + body,
	"Pragma":                   line + host + typed + sized + "Pragma: no-cache\r\n\r\n" + body,
	"no content type":          line + host + sized + "\r\n" + body,
	"another content type":     line + host + "Content-Type: text/plain\r\n" + sized + "\r\n" + body,
	"stream of Connect":        line + host + "Content-Type: application/connect+json\r\n" + sized + "\r\n" + body,
	"gRPC-Web":                 line + host + "Content-Type: application/grpc-web\r\n" + sized + "\r\n" + body,
	"many fields":              line + host + typed + sized + strings.Repeat("a: b\r\n", maxFields) + "\r\n" + body,
	"long head":                line + host + typed + sized + "X-A: " + strings.Repeat("a", maxHead) + "\r\n\r\n" + body,
	"long head, not complete":  line + host + typed + sized + "X-A: " + strings.Repeat("a", maxHead),
	"unknown method":           "POST /a.B/D HTTP/1.1\r\n" + host + typed + sized + "\r\n" + body,
	"first line of another":    "GET / HTTP/1.1\r\n",
	"bad line, not complete":   line + "X A: b\r\n",
	"length in a line of NULs": line + host + typed + "Content-Length: 5\x00\r\n\r\n" + body,
}

func known(path []byte) bool { return string(path) == "/a.B/C" }

func anyPath([]byte) bool { return true }

func TestOrdinaryRequests(t *testing.T) {
	for name, text := range ordinary {
		t.Run(name, func(t *testing.T) {
			if _, err := parse([]byte(text), maxHead, known); err != nil {
				t.Error(err)
			}
			compare(t, []byte(text))
		})
	}
}

func TestOtherRequests(t *testing.T) {
	for name, text := range others {
		t.Run(name, func(t *testing.T) {
			if h, err := parse([]byte(text), maxHead, known); !errors.Is(err, errNotOrdinary) {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
}

// FuzzAsNetHTTP: net/http accepts each request that is accepted here, and takes it for the same.
func FuzzAsNetHTTP(f *testing.F) {
	for _, text := range ordinary {
		f.Add([]byte(text))
	}
	for _, text := range others {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, b) })
}

// compare compares what parse and net/http make of b, if parse takes it for ordinary.
func compare(t *testing.T, b []byte) {
	h, err := parse(b, maxHead, anyPath)
	if err != nil {
		return
	}
	if !strings.HasPrefix(string(b), h.text) || !strings.HasSuffix(h.text, "\r\n\r\n") {
		t.Fatalf("the head is %q", h.text)
	}
	for n := range len(h.text) { // a head that comes in pieces is not given up before it is complete
		if _, err := parse(b[:n], maxHead, anyPath); !errors.Is(err, errIncomplete) {
			t.Fatalf("%q: %v", b[:n], err)
		}
	}
	all := len(h.text) + h.length
	if len(b) < all {
		b = append(bytes.Clone(b), make([]byte, all-len(b))...)
	}
	in := bufio.NewReader(bytes.NewReader(b))
	r, err := http.ReadRequest(in)
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != http.MethodPost || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.URL.Path != h.path || r.URL.String() != h.path || r.RequestURI != h.path {
		t.Errorf("%s %s %s, not %s", r.Method, r.URL, r.Proto, h.path)
	}
	if r.Host != h.host || !httpguts.ValidHostHeader(h.host) {
		t.Errorf("host %q, not %q", r.Host, h.host)
	}
	if r.ContentLength != int64(h.length) || r.TransferEncoding != nil || r.Trailer != nil || r.Close != (h.ending == closing) {
		t.Errorf("length %d, coding %q, trailer %q, close %v, not %d, %v", r.ContentLength, r.TransferEncoding, r.Trailer, r.Close, h.length, h.ending)
	}
	got := http.Header{}
	for name, values := range h.fields.All {
		got[name] = values
		for _, v := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
				t.Errorf("net/http's server refuses %q: %q", name, v)
			}
		}
	}
	if !maps.EqualFunc(got, r.Header, func(a, b []string) bool { return fmt.Sprintf("%q", a) == fmt.Sprintf("%q", b) }) {
		t.Errorf("fields %q, not %q", got, r.Header)
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Equal(content, b[len(h.text):all]) {
		t.Errorf("body %q, %v", content, err)
	}
	if rest, err := io.ReadAll(in); err != nil || !bytes.Equal(rest, b[all:]) {
		t.Errorf("the request ends before %q, not before %q", rest, b[all:])
	}
}
