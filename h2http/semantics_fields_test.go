package h2http_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// parted sends a header list and then content in pieces.
func parted(fields []string, pieces ...string) func(*peer) {
	return func(p *peer) {
		p.request(1, more, "POST", "/", fields...)
		for i, s := range pieces {
			e := more
			if i == len(pieces)-1 {
				e = end
			}
			p.data(1, e, s)
		}
	}
}

// target sends a GET of a path.
func target(path string) func(*peer) { return func(p *peer) { p.request(1, end, "GET", path) } }

// authority sends a GET with an :authority.
func authority(name string) func(*peer) {
	return func(p *peer) {
		p.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", name)
	}
}

// fileTime is when a file was last changed.
var fileTime = time.Unix(1e9, 0)

// fieldSemantics is about the fields of requests and responses.
var fieldSemantics = []semantics{
	{name: "path with two slashes", handler: dumper, client: target("//a//b")},
	{name: "path with dots", handler: dumper, client: target("/a/../b/./c")},
	{name: "path with a bad escape, no handler", handler: dumper, client: target("/%zz")},
	{name: "path with a fragment", handler: dumper, client: target("/a#b")},
	{name: "path with a blank, no handler", handler: dumper, client: target("/a b")},
	{name: "path with bytes above 127", handler: dumper, client: target("/\xc3\xa9")},
	{name: "path with a query alone", handler: dumper, client: target("/?")},
	{name: "authority with a port", handler: dumper, client: authority("example.com:8080")},
	{name: "authority in upper case", handler: dumper, client: authority("Example.COM")},
	{name: "authority of IPv6", handler: dumper, client: authority("[::1]:80")},
	{name: "authority with a slash", handler: dumper, client: authority("a/b")},
	{name: "authority with a blank", handler: dumper, client: authority("a b")},
	{name: "authority that is empty", handler: dumper, client: authority("")},
	{name: "authority and the same host", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { n.add("%s %q", r.Host, r.Header["Host"]) },
		client:  method("GET", "host", "example.com"),
		differs: "Request.Host is documented to have taken Host out of Header",
		netHTTP: "example.com [\"example.com\"]\nHEADERS :status=200 content-length=0 date=…",
		want:    "example.com []\nHEADERS :status=200 content-length=0 date=…"},
	{name: "neither authority nor host", handler: dumper, client: func(p *peer) {
		p.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/")
	}},
	{name: "scheme https", handler: dumper, client: func(p *peer) {
		p.headers(1, end, ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "example.com")
	}},
	{name: "values in order of two names", handler: dumper, client: method("GET", "a", "1", "b", "2", "a", "3", "b", "", "a", "1")},
	{name: "values above 127", handler: dumper, client: method("GET", "x-a", "caf\xc3\xa9", "x-b", "\xff")},
	{name: "a value with a tab", handler: dumper, client: method("GET", "x-a", "a\tb")},
	{name: "names with digits and marks", handler: dumper, client: method("GET", "x_1", "a", "2x", "b", "!#$", "c")},
	{name: "a value of 16 kB", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { n.add("%d", len(r.Header.Get("X-Long"))) },
		client: func(p *peer) {
			p.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "example.com", "x-long", text(16000))
		}},
	{name: "cookie once", handler: dumper, client: method("GET", "cookie", "a=1; b=2")},
	{name: "cookies apart", handler: dumper, client: method("GET", "cookie", "a=1", "x", "y", "cookie", "", "cookie", "b=2; c=3")},
	{name: "user-agent that is empty", handler: dumper, client: method("GET", "user-agent", "")},
	{name: "te: trailers", handler: dumper, client: method("GET", "te", "trailers")},
	{name: "expect of something else", handler: dumper, client: method("POST", "expect", "200-ok")},
	{name: "expect with the end of the request", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { body(n, r) }, client: method("POST", "expect", "100-continue"),
		differs: "there is no content to wait for (RFC 9110 section 10.1.1)",
		netHTTP: "read 0 bytes \"\" <nil>\nHEADERS :status=100\nHEADERS :status=200 content-length=0 date=…",
		want:    "read 0 bytes \"\" <nil>\nHEADERS :status=200 content-length=0 date=…"},
	{name: "expect in upper case", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-Continue")
		p.wait(1, 1)
		p.data(1, end, "x")
	}},
	{name: "expect, read after the header", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		body(n, r)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-continue")
		p.wait(1, 1)
		p.data(1, end, "x")
	}},
	{name: "expect, 100 by the handler", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusContinue)
		body(n, r)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-continue")
		p.wait(1, 1)
		p.data(1, end, "x")
	}},
	{name: "expect, body closed", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { r.Body.Close() }, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-continue")
	}},
	{name: "content-length twice, equal", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%d %q", r.ContentLength, r.Header["Content-Length"])
		body(n, r)
	}, client: parted([]string{"content-length", "2", "content-length", "2"}, "ab"),
		differs: "one field replaces them, as with HTTP/1.1 (RFC 9110 section 8.6)",
		netHTTP: by127("2 [\"2\" \"2\"]", "2 [\"2\"]") + "\nread 2 bytes \"ab\" <nil>\nHEADERS :status=200 content-length=0 date=…",
		want:    "2 [\"2\"]\nread 2 bytes \"ab\" <nil>\nHEADERS :status=200 content-length=0 date=…"},
	{name: "content-length with leading zeros", handler: dumper, client: parted([]string{"content-length", "002"}, "ab")},
	{name: "content shorter than declared", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		n.add("%t", err != nil)
	}, client: parted([]string{"content-length", "5"}, "ab"),
		differs: "the request is malformed: a stream error (RFC 9113 section 8.1.1)",
		netHTTP: "true\nHEADERS :status=200 content-length=0 date=…",
		want:    "true\nRST_STREAM PROTOCOL_ERROR"},
	{name: "trailers that are forbidden", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/", "trailer", "content-length, transfer-encoding, trailer, x-a")
		p.data(1, more, "x")
		p.headers(1, end, "content-length", "1", "x-a", "1")
	}},
	{name: "trailers with a pseudo-field", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		n.add("%t", err != nil)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "trailer", "x-a")
		p.data(1, more, "x")
		p.headers(1, end, ":path", "/")
	}},
	{name: "trailers that do not end the stream", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		n.add("%t", err != nil)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "trailer", "x-a")
		p.data(1, more, "x")
		p.headers(1, more, "x-a", "1")
	}},
	{name: "trailers before they are read", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.header("before", r.Trailer)
		b := make([]byte, 1)
		_, err := io.ReadFull(r.Body, b)
		n.add("%v", err)
		_, err = r.Body.Read(b)
		n.add("%v", err)
		n.header("after", r.Trailer)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "trailer", "x-a,x-b")
		p.data(1, more, "x")
		p.headers(1, end, "x-a", "1")
	}},
	{name: "TLS and protocol", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, overTLS := r.Context().Value(contextKey("conn")).(*tls.Conn)
		n.add("%t %d %d %q", (r.TLS != nil) == overTLS, r.ProtoMajor, r.ProtoMinor, r.Pattern)
		if r.TLS != nil && (r.TLS.NegotiatedProtocol != "h2" || !r.TLS.HandshakeComplete) {
			n.add("%q %t", r.TLS.NegotiatedProtocol, r.TLS.HandshakeComplete)
		}
	}, client: func(p *peer) { // since Go 1.27 net/http sets TLS for the scheme https alone
		p.headers(1, end, ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "example.com")
	}, server: func(s *http.Server) {
		s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, contextKey("conn"), c)
		}
	}},
	{name: "ServeMux", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /a/{id}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
			n.add("%s %s %s", r.Pattern, r.PathValue("id"), r.PathValue("rest"))
		})
		mux.ServeHTTP(w, r)
	}, client: target("/a/%2F/c/d")},
	{name: "multipart form", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		err := r.ParseMultipartForm(1 << 10)
		n.add("%v", err)
		if err == nil {
			n.add("%v %d", r.MultipartForm.Value, len(r.MultipartForm.File["f"]))
		}
	}, client: parted([]string{"content-type", `multipart/form-data; boundary="b"`},
		"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n"+text(100)+"\r\n--b--\r\n")},

	{name: "WriteHeader 100", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(100) }},
	{name: "WriteHeader 101", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		io.WriteString(w, "x")
	},
		differs: "HTTP/2 has no such status (RFC 9113 section 8.6)",
		netHTTP: "HEADERS :status=101\nHEADERS :status=200 content-length=1 content-type=text/plain; charset=utf-8 date=…\nDATA x",
		want:    "HEADERS :status=200 content-length=1 content-type=text/plain; charset=utf-8 date=…\nDATA x"},
	{name: "WriteHeader 199", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(199) }},
	{name: "103 after the header", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.WriteHeader(103)
		io.WriteString(w, "x")
	}},
	{name: "103 after content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.WriteHeader(103)
	}},
	{name: "103 with many fields", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Link"] = []string{"<a>", "<b>"}
		w.Header().Set("Trailer", "X-A")
		w.Header().Set("Content-Type", "text/css")
		w.WriteHeader(103)
		w.Header().Del("Link")
	}},
	{name: "103 with a connection's field", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(103)
		w.Header().Del("Connection")
	},
		differs: "RFC 9113 section 8.2.2 forbids them, and the peer must treat the response as malformed",
		netHTTP: "HEADERS :status=103 connection=close\nHEADERS :status=200 content-length=0 date=…",
		want:    "HEADERS :status=103\nHEADERS :status=200 content-length=0 date=…"},
	{name: "205", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(205)
		m, err := io.WriteString(w, "x")
		n.add("%d %v", m, err)
	}},
	{name: "204 with a length", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(204)
	}},
	{name: "204 flushed", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(204)
		w.(http.Flusher).Flush()
	}},
	{name: "304 with nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) }},
	{name: "HEAD 404", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }},
	{name: "HEAD copied", client: method("HEAD"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(w, strings.NewReader(text(3000)))
		n.add("%d %v", m, err)
	}},
	{name: "redirect", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/there", http.StatusFound)
	}},
	{name: "content length 0 and content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(200)
	}},
	{name: "content length that is negative", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "-5")
		io.WriteString(w, "x")
	}},
	{name: "content length with a sign", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "+1")
		io.WriteString(w, "x")
	}},
	{name: "content length with leading zeros", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "01")
		io.WriteString(w, "x")
	}},
	{name: "content length twice", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = []string{"1", "1"}
		io.WriteString(w, "x")
	}},
	{name: "content type twice", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = []string{"a/b", "c/d"}
		io.WriteString(w, "x")
	}},
	{name: "content type that is empty", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "")
		io.WriteString(w, "x")
	}},
	{name: "content type in lower case", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["content-type"] = []string{"a/b"}
		w.Header()["content-length"] = []string{"1"}
		w.Header()["date"] = []string{"x"}
		io.WriteString(w, "x")
	}},
	{name: "content type of nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Write([]byte{}) }},
	{name: "content type with an empty encoding", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "")
		io.WriteString(w, "x")
	}},
	{name: "content type with nosniff", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		io.WriteString(w, "<html>")
	}},
	{name: "date twice", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = []string{"a", "b"} }},
	{name: "names without values", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["X-None"] = []string{}
		w.Header()["X-Empty"] = []string{""}
	}},
	{name: "values with blanks around",
		handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-B")
			w.Header()["X-A"] = []string{" a ", "\tb"}
			io.WriteString(w, "x")
			w.Header().Set("X-B", " c ")
		},
		differs: "such a response is malformed (RFC 9113 section 8.2.1), and HTTP/1.1 sends no blanks, too",
		netHTTP: "HEADERS :status=200 content-length=1 content-type=text/plain; charset=utf-8 date=… trailer=X-B x-a= a  x-a=\tb\nDATA x\nHEADERS x-b= c ",
		want:    "HEADERS :status=200 content-length=1 content-type=text/plain; charset=utf-8 date=… trailer=X-B x-a=a x-a=b\nDATA x\nHEADERS x-b=c"},
	{name: "response's values above 127", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header()["X-A"] = []string{"caf\xc3\xa9", "\xff", "a\tb", "a\rb", "a\x00b"}
	}},
	{name: "response's header of 40 kB", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		for range 4 {
			w.Header().Add("X-Long", text(10000))
		}
	}},
	{name: "te and host in a response", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Te", "trailers")
		w.Header().Set("Host", "x")
	}},
	{name: "connection with other names", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "x-a")
		w.Header().Set("X-A", "1")
	}},
	{name: "trailers declared in lower case", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "x-a")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
	}},
	{name: "trailers set before", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		w.Header().Set("X-A", "before")
		io.WriteString(w, "x")
		w.Header().Add("X-A", "after")
	}},
	{name: "trailers declared too late", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.Header().Set("Trailer", "X-A")
		io.WriteString(w, "x")
		w.Header().Set("X-A", "1")
	}},
	{name: "trailers after flushes", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		for range 3 {
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-A", "1")
	}},
	{name: "trailers that are bad", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A, bad name, , X-C")
		io.WriteString(w, "x")
		w.Header()["X-A"] = []string{"a\nb", "good"}
		w.Header()["bad name"] = []string{"x"}
		w.Header().Set(http.TrailerPrefix+"bad other", "x")
		w.Header().Set(http.TrailerPrefix+"Content-Length", "5")
		w.Header().Set(http.TrailerPrefix+"Connection", "close")
	}},
	{name: "trailers of 204", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-A")
		w.WriteHeader(204)
		w.Header().Set("X-A", "1")
	}},
	{name: "TrailerPrefix before the content", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set(http.TrailerPrefix+"X-A", "1")
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
	}},
	{name: "TrailerPrefix with a length", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1")
		io.WriteString(w, "x")
		w.Header().Set(http.TrailerPrefix+"X-A", "1")
	}},
	{name: "ReadFrom that fails", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		broken := errors.New("broken")
		m, err := io.Copy(w, io.MultiReader(strings.NewReader("part"), readFunc(func([]byte) (int, error) { return 0, broken })))
		n.add("%d %t", m, errors.Is(err, broken))
	}},
	{name: "ReadFrom of nothing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(w, plain{strings.NewReader("")})
		n.add("%d %v", m, err)
	}},
	{name: "ReadFrom beyond the length", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "ab")
		w.(http.Flusher).Flush()
		_, err := io.Copy(w, plain{strings.NewReader("cdefgh")})
		n.add("%t", err != nil)
	}},
	{name: "ReadFrom of the request's body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(w, r.Body)
		n.add("%d %v", m, err)
	}, client: parted(nil, "hello ", "world")},
	{name: "ServeContent not modified", client: method("GET", "if-none-match", `"x"`), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"x"`)
		http.ServeContent(w, r, "a.txt", fileTime, strings.NewReader("hello"))
	}},
	{name: "ServeContent out of range", client: method("GET", "range", "bytes=99-"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", fileTime, strings.NewReader("hello"))
	}},
	{name: "ServeFileFS", client: target("/page.html"), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.FileServerFS(os.DirFS("testdata")).ServeHTTP(w, r)
	}},
}
