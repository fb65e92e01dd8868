package h2http_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// fetch sends a GET after change.
func fetch(change func(r *http.Request)) func(*notes, http.RoundTripper, string) {
	return func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url+"/", nil)
		change(req)
		send(n, rt, req)
	}
}

// compressed answers with gzip.
func compressed(n *notes, w http.ResponseWriter, r *http.Request) {
	n.add("%q %q", r.Header["Accept-Encoding"], r.Header["Range"])
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	io.WriteString(z, "hello")
	z.Close()
	w.Header().Set(http.TrailerPrefix+"X-A", "1")
}

var errOurs = errors.New("ours")

// clientFieldFacts is about the fields of requests and responses, their bodies, and how requests end.
var clientFieldFacts = []clientSemantics{
	{name: "method that is empty", handler: requestDump, do: fetch(func(r *http.Request) { r.Method = "" })},
	{name: "method in lower case", handler: requestDump, do: fetch(func(r *http.Request) { r.Method = "get" })},
	{name: "method with a body", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("x") }, func(r *http.Request) { r.Method = "GET" })},
	{name: "path that is empty", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.Path = "" })},
	{name: "path without a slash", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.Path = "a" })},
	{name: "path with two slashes", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.Path = "//a" })},
	{name: "path with blanks and query", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.Path, r.URL.RawQuery, r.URL.Fragment = "/a b", "c=d e", "f" })},
	{name: "path that is opaque", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.Opaque = "//" + r.URL.Host + "/x%2fy" })},
	{name: "query alone", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.ForceQuery = true })},
	{name: "user in the URL", handler: requestDump, do: fetch(func(r *http.Request) { r.URL.User = url.UserPassword("a", "b") })},
	{name: "host with a port", handler: requestDump, do: fetch(func(r *http.Request) { r.Host = "example.com:8080" })},
	{name: "host that is bad", handler: requestDump, do: fetch(func(r *http.Request) { r.Host = "a b" })},
	{name: "host in the header", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Host", "example.com") })},
	{name: "values in order", handler: requestDump, do: fetch(func(r *http.Request) { r.Header["X-A"] = []string{"1", "", "2"}; r.Header["X-B"] = nil })},
	{name: "values with blanks",
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			n.add("%q %q %q", r.Header["X-A"], r.Header["Cookie"], r.UserAgent())
		},
		do: func(n *notes, rt http.RoundTripper, url string) {
			req, _ := http.NewRequest("GET", url, nil)
			req.Header = http.Header{"X-A": {" a ", "\tb"}, "Cookie": {"c=d; e=f "}, "User-Agent": {"g "}}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			n.add("%t", err == nil)
		},
		differs: "such a request is malformed (RFC 9113 section 8.2.1), and HTTP/1.1 sends no blanks, too",
		netHTTP: `[" a " "\tb"] ["c=d; e=f "] "g "` + "\ntrue",
		want:    `["a" "b"] ["c=d; e=f"] "g"` + "\ntrue"},
	{name: "values above 127", handler: requestDump, do: fetch(func(r *http.Request) { r.Header["X-A"] = []string{"caf\xc3\xa9"} })},
	{name: "names above 127", handler: requestDump, do: fetch(func(r *http.Request) { r.Header["X-\xc3\xa9"] = []string{"1"} })},
	{name: "name that is empty", handler: requestDump, do: fetch(func(r *http.Request) { r.Header[""] = []string{"1"} })},
	{name: "cookies", handler: requestDump, do: fetch(func(r *http.Request) { r.Header["Cookie"] = []string{"a=1; b=2;c=3", "", "d=4"} })},
	{name: "cookies added", handler: requestDump, do: fetch(func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: "a", Value: "1"})
		r.AddCookie(&http.Cookie{Name: "b", Value: "2"})
	})},
	{name: "user agents", handler: requestDump, do: fetch(func(r *http.Request) { r.Header["User-Agent"] = []string{"a", "b"} })},
	{name: "user agent that is empty", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("User-Agent", "") })},
	{name: "te of something else", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Te", "gzip, trailers") })},
	{name: "transfer-encoding chunked", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Transfer-Encoding", "chunked") })},
	{name: "transfer-encoding gzip", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip") })},
	{name: "TransferEncoding", handler: requestDump, do: post(func() io.Reader { return strings.NewReader("x") }, func(r *http.Request) { r.TransferEncoding = []string{"chunked"} })},
	{name: "connection close", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Connection", "close") })},
	{name: "connection with a name", handler: requestDump, do: fetch(func(r *http.Request) { r.Header.Set("Connection", "x-a") })},
	{name: "Close", handler: requestDump, do: fetch(func(r *http.Request) { r.Close = true })},
	{name: "content-length in the header", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("hello") }, func(r *http.Request) { r.Header.Set("Content-Length", "3") })},
	{name: "ContentLength below zero", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("hello") }, func(r *http.Request) { r.ContentLength = -1 })},
	{name: "ContentLength without a body", handler: echoBody, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.ContentLength = 5 })},
	{name: "ContentLength 0 with a body", handler: echoBody, do: post(func() io.Reader { return plain{strings.NewReader("hello")} }, func(r *http.Request) { r.ContentLength = 0 })},
	{name: "body too short", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		do: func(n *notes, rt http.RoundTripper, url string) {
			req, _ := http.NewRequest("POST", url, plain{strings.NewReader("hello")})
			req.ContentLength = 9
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			n.add("%t", err == nil)
		},
		differs: "such a request is malformed, and fails with HTTP/1.1, too",
		netHTTP: "true",
		want:    "false"},
	{name: "DELETE with a body", handler: echoBody, do: post(func() io.Reader { return strings.NewReader("x") }, func(r *http.Request) { r.Method = "DELETE" })},
	{name: "PUT without a body", handler: requestDump, do: post(func() io.Reader { return nil }, func(r *http.Request) { r.Method = "PUT" })},
	{name: "body closed once it is sent", handler: echoBody, do: func(n *notes, rt http.RoundTripper, url string) {
		c := &closeRecorder{plain{strings.NewReader("hello")}, make(chan struct{})}
		req, _ := http.NewRequest("POST", url, c)
		send(n, rt, req)
		<-c.closed
	}},
	{name: "body closed of a request that is refused", handler: echoBody, do: func(n *notes, rt http.RoundTripper, url string) {
		c := &closeRecorder{strings.NewReader("hello"), make(chan struct{})}
		req, _ := http.NewRequest("POST", url, c)
		req.Header["bad name"] = []string{"x"}
		send(n, rt, req)
		<-c.closed
	}},
	{name: "trailers without a body", handler: requestDump, do: fetch(func(r *http.Request) { r.Trailer = http.Header{"X-A": {"1"}} })},
	{name: "trailers that are forbidden", handler: requestDump, do: post(func() io.Reader { return strings.NewReader("x") }, func(r *http.Request) { r.Trailer = http.Header{"Content-Length": {"1"}} })},
	{name: "trailers that are bad", handler: requestDump, do: post(func() io.Reader { return strings.NewReader("x") }, func(r *http.Request) { r.Trailer = http.Header{"bad name": {"1"}} })},
	{name: "expect, answered at once", setup: func(s *clientSetup) { s.tr.ExpectContinueTimeout = time.Hour }, handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}, do: post(func() io.Reader { return plain{strings.NewReader("hello")} }, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })},
	{name: "expect without a body", setup: func(s *clientSetup) { s.tr.ExpectContinueTimeout = time.Hour }, handler: requestDump,
		do: fetch(func(r *http.Request) { r.Header.Set("Expect", "100-continue") })},

	{name: "gzip asked for by the caller", handler: compressed, do: func(n *notes, rt http.RoundTripper, url string) {
		req, _ := http.NewRequest("GET", url, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		defer resp.Body.Close()
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			n.add("%v", err)
			return
		}
		b, err := io.ReadAll(z)
		n.add("%t %q %q %v", resp.Uncompressed, resp.Header["Content-Encoding"], b, err)
	}},
	{name: "gzip with a trailer", handler: compressed},
	{name: "gzip and a range", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%q", r.Header["Accept-Encoding"])
	}, do: fetch(func(r *http.Request) { r.Header.Set("Range", "bytes=0-1") })},
	{name: "gzip and HEAD", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%q", r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "gzip")
	}, do: fetch(func(r *http.Request) { r.Method = "HEAD" })},
	{name: "gzip of nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", "0")
	}},
	{name: "gzip in upper case", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "GZIP")
		z := gzip.NewWriter(w)
		io.WriteString(z, "hello")
		z.Close()
	}},
	{name: "gzip cut off", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte{31, 139, 8})
	}},
	{name: "another encoding", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, "x")
	}},
	{name: "response of 0 bytes", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "0") }},
	{name: "response flushed", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
	{name: "response's values", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["X-A"] = []string{"", "caf\xc3\xa9", " a "}
		w.Header()["x-lower"] = []string{"1"}
		w.Header()["X_B"] = []string{"1"}
	}},
	{name: "trailers declared and not sent", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		w.Header().Add("Trailer", "X-B, x-c")
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
	}},
	{name: "trailers twice", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		io.WriteString(w, "x")
		w.Header()["X-A"] = []string{"1", "2"}
	}},
	{name: "redirects", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		n.add("%s %s %q %q %q", r.Method, r.URL, b, r.Header["Referer"], r.Header["Cookie"])
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "1"})
		switch r.URL.Path {
		case "/post":
			http.Redirect(w, r, "/second", http.StatusTemporaryRedirect)
		case "/second":
			http.Redirect(w, r, "/third", http.StatusSeeOther)
		}
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		jar, _ := cookiejar.New(nil)
		resp, err := (&http.Client{Transport: rt, Jar: jar}).Post(url+"/post", "text/plain", strings.NewReader("hello"))
		if err != nil {
			n.add("%v", err)
			return
		}
		n.add("%s %s", resp.Status, resp.Request.URL.Path)
		resp.Body.Close()
	}},
	{name: "HEAD's body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "99") },
		do: func(n *notes, rt http.RoundTripper, url string) { noBody(n, rt, "HEAD", url) }},
	{name: "204's body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) },
		do: func(n *notes, rt http.RoundTripper, url string) { noBody(n, rt, "GET", url) }},

	{name: "cause of a context before", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errOurs)
		caused(n, rt, url, ctx)
	}},
	{name: "no hook of a context that has ended", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		caused(n, rt, url, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(addr string) { n.add("GetConn %s", addr) }}))
	}},
	{name: "context detached from one that has ended", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		req, _ := http.NewRequestWithContext(detached{ctx}, "GET", url, nil)
		send(n, rt, req)
	}},
	{name: "cause of a context while dialling", setup: func(s *clientSetup) { s.dial = dialNothing }, handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Millisecond, errOurs)
		defer cancel()
		caused(n, rt, url, ctx)
	}},
	{name: "cause of a context before the header", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		caused(n, rt, url, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel(errOurs) }}))
	}},
	{name: "cause of a context within the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		cancel(errOurs)
		_, err = io.ReadAll(resp.Body)
		n.add("canceled=%t ours=%t", errors.Is(err, context.Canceled), errors.Is(err, errOurs))
		resp.Body.Close()
	}},
	{name: "cause of a context before, with Cancel", handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errOurs)
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(addr string) { n.add("GetConn %s", addr) }})
		causedBeside(n, rt, url, ctx, make(chan struct{}))
	}},
	{name: "cause of a context while dialling, with Cancel", setup: func(s *clientSetup) { s.dial = dialNothing }, handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer time.AfterFunc(30*time.Millisecond, func() { cancel(errOurs) }).Stop()
		causedBeside(n, rt, url, ctx, make(chan struct{}))
	}},
	{name: "cause of a deadline while dialling, with Cancel", setup: func(s *clientSetup) { s.dial = dialNothing }, handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Millisecond, errOurs)
		defer cancel()
		causedBeside(n, rt, url, ctx, make(chan struct{}))
	}},
	{name: "cause of a context before the header, with Cancel", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		causedBeside(n, rt, url, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel(errOurs) }}), make(chan struct{}))
	}},
	{name: "Cancel closed while dialling", setup: func(s *clientSetup) { s.dial = dialNothing }, handler: requestDump, do: func(n *notes, rt http.RoundTripper, url string) {
		cancel := make(chan struct{})
		time.AfterFunc(30*time.Millisecond, func() { close(cancel) })
		canceled(n, rt, url, cancel)
	}},
	{name: "context ends after the response", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		send(n, rt, req)
		cancel()
	}},
	{name: "full duplex in pieces", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		b := make([]byte, 10)
		for {
			m, err := r.Body.Read(b)
			w.Write(b[:m])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		pr, pw := io.Pipe()
		req, _ := http.NewRequest("POST", url, pr)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		for i := range 5 {
			fmt.Fprintf(pw, "piece %d", i)
			b := make([]byte, len("piece 0"))
			_, err := io.ReadFull(resp.Body, b)
			n.add("%q %v", b, err)
		}
		pw.Close()
		b, err := io.ReadAll(resp.Body)
		n.add("%q %v", b, err)
		resp.Body.Close()
	}},
	{name: "Got1xxResponse that fails", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		<-r.Context().Done()
	}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { return errOurs },
		})
		caused(n, rt, url, ctx)
	},
		differs: "the request is documented to be aborted with that error value",
		netHTTP: "canceled=false deadline=false ours=false",
		want:    "canceled=false deadline=false ours=true"},
	{name: "trace of the dial", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}, do: func(n *notes, rt http.RoundTripper, url string) {
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			GetConn:          func(addr string) { n.add("GetConn %s", addr) },
			ConnectStart:     func(network, addr string) { n.add("ConnectStart %s %s", network, addr) },
			ConnectDone:      func(network, addr string, err error) { n.add("ConnectDone %s %s %v", network, addr, err) },
			WroteHeaderField: func(key string, values []string) { n.add("WroteHeaderField %s %q", key, values) },
		})
		req, _ := http.NewRequestWithContext(ctx, "GET", url+"/", nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			n.add("%v", err)
			return
		}
		resp.Body.Close()
	}},
	{name: "trace of Expect", setup: func(s *clientSetup) { s.tr.ExpectContinueTimeout = time.Hour }, handler: echoBody, do: func(n *notes, rt http.RoundTripper, url string) {
		var list []string
		done := make(chan struct{})
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			WroteHeaders:    func() { list = append(list, "WroteHeaders") },
			Wait100Continue: func() { list = append(list, "Wait100Continue") },
			WroteRequest: func(i httptrace.WroteRequestInfo) {
				list = append(list, fmt.Sprint("WroteRequest ", i.Err))
				close(done)
			},
			Got100Continue: func() { n.add("Got100Continue") },
		})
		req, _ := http.NewRequestWithContext(ctx, "POST", url+"/", plain{strings.NewReader("hello")})
		req.Header.Set("Expect", "100-continue")
		send(n, rt, req)
		<-done
		n.add("%v", list)
	}},
}

// detached has the values of a context, and does not end with it. Its values tell package context's Cause of the other's end.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }

// noBody makes a request whose response has no content.
func noBody(n *notes, rt http.RoundTripper, method, url string) {
	req, _ := http.NewRequest(method, url, nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		n.add("%v", err)
		return
	}
	m, err := resp.Body.Read(make([]byte, 1))
	n.add("%d %v %d", m, err, resp.ContentLength)
	n.add("%v", resp.Body.Close())
}

// dialNothing is a dial that fails when it is not wanted any more. It may go on when its request has ended.
func dialNothing(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	return nil, errors.New("not dialled")
}

// caused makes a request that fails, and notes with which of the errors.
func caused(n *notes, rt http.RoundTripper, url string, ctx context.Context) {
	causedBeside(n, rt, url, ctx, nil)
}

// causedBeside is caused for a request that has a Cancel channel, too.
func causedBeside(n *notes, rt http.RoundTripper, url string, ctx context.Context, cancel <-chan struct{}) {
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	//lint:ignore SA1019 http.Client sets it
	req.Cancel = cancel
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	n.add("canceled=%t deadline=%t ours=%t", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errOurs))
}
