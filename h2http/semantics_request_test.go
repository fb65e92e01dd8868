package h2http_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

func body(n *notes, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	n.add("read %d bytes %q %v", len(b), clip(string(b)), err)
}

func dumper(n *notes, w http.ResponseWriter, r *http.Request) {
	dump(n, r)
	body(n, r)
	n.header("trailer after", r.Trailer)
}

var requestSemantics = []semantics{
	{name: "GET", handler: dumper},
	{name: "GET with fields", handler: dumper, client: func(p *peer) {
		p.request(1, end, "GET", "/a%2fb/c?x=1&y=2", "user-agent", "test", "x-custom", "1", "x-custom", "2", "accept", "*/*", "cookie", "a=1", "cookie", "b=2", "te", "trailers")
	}},
	{name: "many fields", handler: dumper, client: func(p *peer) {
		var fields []string
		for _, c := range "abcdefghijklmnopqrstuvwxyz" {
			fields = append(fields, "x-"+string(c), string(c))
		}
		p.request(1, end, "GET", "/", fields...)
	}},
	{name: "twice", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { dumper(n, w, r) }, client: func(p *peer) {
		p.request(1, end, "GET", "/same", "x", "1")
	}},
	{name: "unusual method", handler: dumper, client: func(p *peer) { p.request(1, end, "PURGE", "/x") }},
	{name: "OPTIONS *", handler: dumper, client: func(p *peer) { p.request(1, end, "OPTIONS", "*") }, server: func(s *http.Server) { s.DisableGeneralOptionsHandler = true }},
	{name: "OPTIONS *, no handler", handler: dumper, client: func(p *peer) { p.request(1, end, "OPTIONS", "*") }},
	{name: "CONNECT", handler: dumper, client: func(p *peer) {
		p.headers(1, more, ":method", "CONNECT", ":authority", "example.com:443")
		p.data(1, end, "hello")
	}},
	{name: "POST with length", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/", "content-length", "5", "content-type", "text/plain")
		p.data(1, more, "he")
		p.data(1, end, "llo")
	}},
	{name: "POST without length", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "he")
		p.data(1, more, "llo")
		p.data(1, end, "")
	}},
	{name: "POST of nothing", handler: dumper, client: func(p *peer) { p.request(1, end, "POST", "/", "content-length", "0") }},
	{name: "POST of 100 kB", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := io.Copy(io.Discard, r.Body)
		n.add("%d %v", m, err)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		for range 4 {
			p.data(1, more, text(10000))
		}
		p.data(1, end, text(10000))
	}},
	{name: "trailers declared", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/", "trailer", "x-a, X-B", "trailer", "x-c")
		p.data(1, more, "x")
		p.headers(1, end, "x-a", "1", "x-b", "2", "x-b", "3", "x-d", "not declared")
	}},
	{name: "trailers not declared", handler: dumper, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "x")
		p.headers(1, end, "x-a", "1")
	}},
	{name: "form", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v %v", r.ParseForm(), r.Form)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/?b=2", "content-type", "application/x-www-form-urlencoded")
		p.data(1, end, "a=1&b=3")
	}},
	{name: "100-continue", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		dump(n, r)
		body(n, r)
		io.WriteString(w, "done")
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-continue")
		p.wait(1, 1)
		p.data(1, end, "hello")
	}},
	{name: "100-continue, not read", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { w.WriteHeader(413) }, client: func(p *peer) {
		p.request(1, more, "POST", "/", "expect", "100-continue")
	}},
	{name: "MaxBytesReader", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 3)
		b, err := io.ReadAll(r.Body)
		var tooLarge *http.MaxBytesError
		n.add("%q %t", b, errors.As(err, &tooLarge))
		w.WriteHeader(413)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, end, "hello")
	}},
	{name: "body closed", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v %v", r.Body.Close(), r.Body.Close())
		m, err := r.Body.Read(make([]byte, 1))
		n.add("%d %t", m, err != nil && err != io.EOF)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, end, "hello")
	}},
	{name: "request not read", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { io.WriteString(w, "early") }, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "hello")
	}},
	{name: "full duplex", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		p := make([]byte, 100)
		for {
			m, err := r.Body.Read(p)
			if m > 0 {
				w.Write(bytes.ToUpper(p[:m]))
				w.(http.Flusher).Flush()
			}
			if err != nil {
				n.add("%v", err)
				return
			}
		}
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.wait(1, 1)
		p.data(1, more, "one ")
		p.wait(1, 2)
		p.data(1, end, "two")
	}},
	{name: "header too long, no handler", handler: dumper, server: func(s *http.Server) { s.MaxHeaderBytes = 1000 }, client: func(p *peer) {
		var fields []string
		for range 30 {
			fields = append(fields, "x", text(100))
		}
		p.request(1, end, "GET", "/", fields...)
	}},
	{name: "path that is none, no handler", handler: dumper, client: func(p *peer) { p.request(1, end, "GET", "no-slash") }},
	{name: "userinfo in authority, no handler", handler: dumper, client: func(p *peer) {
		p.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "me@example.com")
	}},
	{name: "strange scheme, no handler", handler: dumper, client: func(p *peer) {
		p.headers(1, end, ":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "example.com")
	}},
	{name: "content longer than declared, no handler", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "content-length", "2")
		p.data(1, end, "hello")
	}},
	{name: "host and no authority", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { n.add("%s %q", r.Host, r.Header["Host"]) },
		client: func(p *peer) {
			p.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", "host", "example.com")
		},
		differs: "Request.Host is documented to have taken Host out of Header",
		netHTTP: "example.com [\"example.com\"]\nHEADERS :status=200 content-length=0 date=…",
		want:    "example.com []\nHEADERS :status=200 content-length=0 date=…"},
}

// contextKey is a key of the tests'.
type contextKey string

var lifeSemantics = []semantics{
	{name: "context", server: func(s *http.Server) {
		s.BaseContext = func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), contextKey("base"), "base")
		}
		s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, contextKey("conn"), c.RemoteAddr().String())
		}
	}, handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		srv, _ := ctx.Value(http.ServerContextKey).(*http.Server)
		addr, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
		n.add("%t %t %v %t %v", srv != nil, addr != nil, ctx.Value(contextKey("base")), ctx.Value(contextKey("conn")) == r.RemoteAddr, ctx.Err())
	}},
	{name: "context after the handler", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		child, cancel := context.WithCancel(r.Context())
		context.AfterFunc(child, cancel)
		go func() { // it is over when the handler has returned
			<-child.Done()
			if child.Err() != context.Canceled {
				panic(child.Err())
			}
		}()
	}},
	{name: "client resets", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		n.add("%v", r.Context().Err())
		b, err := io.ReadAll(r.Body)
		n.add("%q %t", b, err != nil)
		_, err = w.Write([]byte(text(5000)))
		n.add("%t", err != nil)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "partial")
		p.wait(1, 1)
		p.reset(1, http2.ErrCodeCancel)
		p.mu.Lock()
		p.streams[1].ended = true
		p.mu.Unlock()
	}},
	{name: "writing to a stream that the client has reset", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		for i := range 100 { // as a handler that streams events, does not look at the context, and flushes by Flush
			if _, err := io.WriteString(w, "event"); err != nil {
				n.add("write %d failed", i)
				return
			}
			w.(http.Flusher).Flush()
		}
		n.add("no write failed")
	}, client: func(p *peer) {
		p.request(1, end, "GET", "/")
		p.wait(1, 1)
		p.reset(1, http2.ErrCodeCancel)
		p.mu.Lock()
		p.streams[1].ended = true
		p.mu.Unlock()
	}},
	{name: "panic", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { panic("on purpose") }},
	{name: "panic after flush", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic("on purpose")
	}},
	{name: "ErrAbortHandler", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	{name: "read deadline", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		b := make([]byte, len("part"))
		_, err := io.ReadFull(r.Body, b) // before the deadline, which is for what never comes
		n.add("%q %v", b, err)
		n.add("%v", http.NewResponseController(w).SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		b, err = io.ReadAll(r.Body)
		n.add("%q %t", b, errors.Is(err, os.ErrDeadlineExceeded))
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "part")
	}},
	{name: "read deadline in the past", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
		_, err := io.ReadAll(r.Body)
		n.add("%t", errors.Is(err, os.ErrDeadlineExceeded))
	}, client: func(p *peer) { p.request(1, more, "POST", "/") }},
	{name: "read deadline taken back", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		n.add("%v %v", c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Time{}))
		body(n, r)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, end, "hello")
	}},
	{name: "ReadTimeout", timeout: func(s *http.Server, d time.Duration) { s.ReadTimeout = d }, inTime: "\nHEADERS ", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		n.add("%t", errors.Is(err, os.ErrDeadlineExceeded))
	}, client: func(p *peer) { p.request(1, more, "POST", "/") }},
	{name: "write deadline", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
		_, err := io.Copy(w, strings.NewReader(text(1<<20)))
		n.add("%t", err != nil)
	}, client: func(p *peer) { p.request(1, end, "GET", "/") }},
	{name: "WriteTimeout", timeout: func(s *http.Server, d time.Duration) { s.WriteTimeout = d }, inTime: "\nDATA " + text(initialWindow), handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, err := w.Write([]byte(text(1 << 20)))
		n.add("%t", err != nil)
		<-r.Context().Done()
	}},
	{name: "log", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		srv := r.Context().Value(http.ServerContextKey).(*http.Server)
		n.add("%t", srv.ErrorLog != log.Default())
	}},
}
