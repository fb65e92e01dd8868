package h2http_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

func text(n int) string { return strings.Repeat("abcdefgh", n/8+1)[:n] }

func method(m string, fields ...string) func(*peer) {
	return func(p *peer) { p.request(1, end, m, "/", fields...) }
}

var responseSemantics = []semantics{
	{name: "nothing written", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}},
	{name: "implicit 200", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }},
	{name: "status", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 404) }},
	{name: "unusual status", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(599)
		io.WriteString(w, "x")
	}},
	{name: "status without content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
	{name: "second WriteHeader", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
	}},
	{name: "header after WriteHeader", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("A", "1")
		w.WriteHeader(200)
		w.Header().Set("A", "2")
		w.Header().Set("B", "2")
	}},
	{name: "header after Write", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["A"] = []string{"1", "2"}
		io.WriteString(w, "x")
		w.Header()["A"][0] = "3"
	}},
	{name: "content type found", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html><body>") }},
	{name: "content type found in pieces", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<ht")
		io.WriteString(w, "ml>")
	}},
	{name: "content type found of long content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<html>"+text(9000))
	}},
	{name: "content type set", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	}},
	{name: "content type nil", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "x")
	}},
	{name: "content encoding", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, "x")
	}},
	{name: "date set", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header().Set("Date", "today") }},
	{name: "date nil", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil }},
	{name: "4096 bytes", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, text(4096)) }},
	{name: "4097 bytes", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, text(4097)) }},
	{name: "4096 bytes in pieces", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, text(4000))
		io.WriteString(w, text(96))
	}},
	{name: "4097 bytes in pieces", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, text(4000))
		w.Write([]byte(text(97)))
	}},
	{name: "60000 bytes", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := w.Write([]byte(text(60000)))
		n.add("%d %v", m, err)
	}},
	{name: "empty Write", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := w.Write(nil)
		n.add("%d %v", m, err)
	}},
	{name: "flush", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "x")
	}},
	{name: "flush between", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		n.add("%v", http.NewResponseController(w).Flush())
		w.Header().Set("A", "too late")
		io.WriteString(w, "y")
	}},
	{name: "flush only", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
	{name: "content length", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5000")
		m, err := io.WriteString(w, text(5000))
		n.add("%d %v", m, err)
	}},
	{name: "content length that is no number", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "many")
		io.WriteString(w, "x")
	}},
	{name: "content length that is not reached", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "x")
	}},
	{name: "content length exceeded after flush", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		m, err := io.WriteString(w, "yz")
		n.add("%d %t", m, err != nil)
	}},
	{name: "content length exceeded before flush",
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2")
			m, err := io.WriteString(w, "xyz")
			n.add("%d %t", m, errors.Is(err, http.ErrContentLength))
		},
		differs: "http.ErrContentLength is documented, and HTTP/1.1 returns it at once",
		netHTTP: "3 false\nHEADERS :status=200 content-length=2 content-type=text/plain; charset=utf-8 date=…\nDATA xyz",
		want:    "0 true\nHEADERS :status=200 content-length=2 date=…"},
	{name: "content length nil", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = nil
		io.WriteString(w, "x")
	}},
	{name: "content length nil, nothing written", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = nil
	}},
	{name: "HEAD", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.WriteString(w, "hello")
		n.add("%d %v", m, err)
	}},
	{name: "HEAD long", client: method("HEAD"),
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			m, err := io.WriteString(w, text(10000))
			n.add("%d %v", m, err)
		},
		differs: "a handler that does not look at the method has no error from Write, as with HTTP/1.1",
		netHTTP: "4096 short write\nHEADERS :status=200 content-type=text/plain; charset=utf-8 date=…",
		want:    "10000 <nil>\nHEADERS :status=200 content-type=text/plain; charset=utf-8 date=…"},
	{name: "HEAD nothing", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {}},
	{name: "HEAD length", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "12345")
	}},
	{name: "HEAD flush", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "x")
	}},
	{name: "HEAD flush, then wait for the end", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		n.add("%v", r.Context().Err())
	}},
	{name: "HEAD long, then wait for the end", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, text(3000))
		}
		<-r.Context().Done()
		n.add("%v", r.Context().Err())
	}},
	{name: "HEAD with content, flush, then wait for the end",
		client: func(p *peer) { p.request(1, more, "HEAD", "/") },
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			_, err := r.Body.Read(make([]byte, 1))
			n.add("%v %v", r.Context().Err(), err)
		}},
	{name: "204", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(204)
		m, err := io.WriteString(w, "x")
		n.add("%d %v", m, err)
	}},
	{name: "304", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"x"`)
		w.Header().Set("Content-Length", "7")
		w.WriteHeader(304)
		m, err := w.Write([]byte("x"))
		n.add("%d %v", m, err)
	}},
	{name: "declared trailers", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-B, x-a")
		w.Header().Add("Trailer", "X-C")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
		w.Header()["X-B"] = []string{"2", "3"}
		w.Header().Set("X-D", "not declared")
	}},
	{name: "declared trailers, long content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		io.WriteString(w, text(5000))
		w.Header().Set("X-A", "1")
	}},
	{name: "declared trailers, none set", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		io.WriteString(w, "x")
	}},
	{name: "declared trailers, nothing written", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		w.WriteHeader(200)
		w.Header().Set("X-A", "1")
	}},
	{name: "forbidden trailers", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Content-Length, X-A")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
	}},
	{name: "TrailerPrefix", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.Header().Set(http.TrailerPrefix+"X-B", "1")
		w.Header().Set(http.TrailerPrefix+"x-a", "2")
	}},
	{name: "TrailerPrefix, nothing written", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}},
	{name: "HEAD with trailers", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
	}},
	{name: "early hints", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("Content-Length", "1")
		w.WriteHeader(103)
		w.Header().Add("Link", "</b.css>; rel=preload")
		w.WriteHeader(103)
		io.WriteString(w, "x")
	}},
	{name: "102 and then nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(102) }},
	{name: "values in order", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "2"})
		w.Header().Add("Vary", "Accept")
	}},
	{name: "bad fields", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Bad Name"] = []string{"x"}
		w.Header()["Bäd"] = []string{"x"}
		w.Header()[":path"] = []string{"/"}
		w.Header()["Bad-Value"] = []string{"x\ny", "good"}
		w.Header()["lower"] = []string{"x"}
		w.Header()["Transfer-Encoding"] = []string{"chunked"}
	}},
	{name: "connection's fields",
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header().Set("Upgrade", "h2c")
			w.Header().Set("Proxy-Connection", "x")
			w.Header().Set("Connection", "keep-alive")
		},
		differs: "RFC 9113 section 8.2.2 forbids them, and the peer must treat the response as malformed",
		netHTTP: "HEADERS :status=200 content-length=0 date=… keep-alive=timeout=5 proxy-connection=x upgrade=h2c",
		want:    "HEADERS :status=200 content-length=0 date=…"},
	{name: "ReadFrom short", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 99))
		n.add("%d %v", m, err)
	}},
	{name: "ReadFrom long", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(w, io.LimitReader(strings.NewReader(text(50000)), 1<<20))
		n.add("%d %v", m, err)
	}},
	{name: "ServeContent", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "testdata/page.html")
	}},
	{name: "ServeContent range", client: method("GET", "range", "bytes=2-5"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		f, err := os.Open("testdata/page.html")
		if err != nil {
			n.add("%v", err)
			return
		}
		defer f.Close()
		info, _ := f.Stat()
		w.Header().Set("Last-Modified", "never")
		http.ServeContent(w, r, "page.html", info.ModTime(), f)
		w.Header().Del("Last-Modified")
	}},
	{name: "ServeContent HEAD", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "testdata/page.html")
	}},
	{name: "invalid status", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		defer func() { n.add("%v", recover()) }()
		w.WriteHeader(1000)
	}},
	{name: "invalid status after Write", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.WriteHeader(0)
	}},
	{name: "optional interfaces", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, hijack := w.(http.Hijacker)
		//lint:ignore SA1019 as net/http has it
		_, notify := w.(http.CloseNotifier)
		_, text := w.(io.StringWriter)
		_, flush := w.(interface{ FlushError() error })
		c := http.NewResponseController(w)
		_, _, err := c.Hijack()
		n.add("%t %t %t %t %t %v", hijack, notify, text, flush, errors.Is(err, http.ErrNotSupported), c.EnableFullDuplex())
	}},
	{name: "closing the connection", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	}},
}
