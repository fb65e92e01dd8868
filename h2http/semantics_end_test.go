package h2http_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// forgotten resets stream 1, of which nothing else is waited for.
func forgotten(p *peer) {
	p.reset(1, http2.ErrCodeCancel)
	p.mu.Lock()
	p.streams[1].ended = true
	p.mu.Unlock()
}

// disconnects begins stream 1 and closes the connection when something has come on it.
func disconnects(p *peer) {
	p.request(1, more, "POST", "/")
	p.wait(1, 1)
	p.nc.Close()
	p.mu.Lock()
	p.streams[1].ended = true
	p.mu.Unlock()
}

// endSemantics is about how handlers and streams end.
var endSemantics = []semantics{
	{name: "Goexit", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { runtime.Goexit() }},
	{name: "Goexit after Write", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		runtime.Goexit()
	}},
	{name: "panic after Write", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		panic("on purpose")
	}},
	{name: "panic with content to come", handler: func(n *notes, w http.ResponseWriter, r *http.Request) { panic("on purpose") },
		client: func(p *peer) { p.request(1, more, "POST", "/") }},
	{name: "connection ends", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		n.add("%v %v", r.Context().Err(), context.Cause(r.Context()))
		_, err := r.Body.Read(make([]byte, 1))
		n.add("%t", err != nil && err != io.EOF)
	}, client: disconnects},
	{name: "connection ends while reading", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, err := io.ReadAll(r.Body)
		n.add("%t", err != nil)
		<-r.Context().Done()
	}, client: disconnects},
	{name: "connection ends while writing", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, err := io.Copy(w, strings.NewReader(text(1<<20)))
		n.add("%t", err != nil)
	}, client: func(p *peer) {
		p.request(1, end, "GET", "/")
		p.wait(1, 2)
		p.nc.Close()
		p.mu.Lock()
		for p.err == nil { // what had come already is still read
			p.changed.Wait()
		}
		p.streams[1].ended, p.streams[1].events = true, nil // how much came is not the point
		p.mu.Unlock()
	}},
	{name: "reset while reading", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, err := io.ReadAll(r.Body)
		n.add("%v", err)
		<-r.Context().Done()
		n.add("%v", context.Cause(r.Context()))
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.wait(1, 1)
		forgotten(p)
	}},
	{name: "reset with NO_ERROR", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, err := io.ReadAll(r.Body)
		n.add("%v", err)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.wait(1, 1)
		p.reset(1, http2.ErrCodeNo)
		p.mu.Lock()
		p.streams[1].ended = true
		p.mu.Unlock()
	}},
	{name: "CloseNotify", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		//lint:ignore SA1019 as net/http has it
		gone := w.(http.CloseNotifier).CloseNotify()
		w.(http.Flusher).Flush()
		n.add("%t", <-gone)
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.wait(1, 1)
		forgotten(p)
	}},
	{name: "context while the body is read", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		n.add("%q %v %v", b, err, r.Context().Err())
		io.WriteString(w, "x")
		n.add("%v", r.Context().Err())
	}, client: parted(nil, "a", "b")},
	{name: "context's deadline", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		_, ok := r.Context().Deadline()
		n.add("%t", ok)
	}, server: func(s *http.Server) { s.WriteTimeout, s.ReadTimeout = time.Hour, time.Hour }},
	{name: "write deadline in the past", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		n.add("%v", http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)))
		<-r.Context().Done()
		_, err := w.Write([]byte(text(10000)))
		n.add("%t", err != nil)
	}},
	{name: "write deadline taken back", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		n.add("%v %v", c.SetWriteDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Time{}))
		_, err := w.Write([]byte(text(10000)))
		n.add("%v", err)
	}},
	{name: "read deadline after the end", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		body(n, r)
		n.add("%v", http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
		_, err := r.Body.Read(make([]byte, 1))
		n.add("%v", err)
	}, client: parted(nil, "a", "b")},
	{name: "read deadline before what has come", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1)
		_, err := io.ReadFull(r.Body, b)
		n.add("%q %v", b, err)
		n.add("%v", http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
		_, err = io.ReadAll(r.Body)
		n.add("%t", errors.Is(err, os.ErrDeadlineExceeded))
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.data(1, more, "a")
	}},
	{name: "read with no room", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		m, err := r.Body.Read(nil)
		n.add("%d %v", m, err)
		body(n, r)
		m, err = r.Body.Read(nil)
		n.add("%d %v", m, err)
	}, client: parted(nil, "a", "b")},
	{name: "MaxBytesHandler", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			n.add("%v", err)
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		}), 3).ServeHTTP(w, r)
	}, client: parted([]string{"content-length", "5"}, "hello")},
	{name: "TimeoutHandler in time", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("A", "1")
			w.WriteHeader(201)
			io.WriteString(w, "hello")
		}), time.Hour, "late").ServeHTTP(w, r)
	}},
	{name: "TimeoutHandler too late", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		answered := make(chan struct{}) // a handler that returned when the time is over could be the first
		defer close(answered)
		http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answered }), time.Millisecond, "late").ServeHTTP(w, r)
	}},
	{name: "early response, then the rest of the body", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "early")
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/", "content-length", "10")
		p.data(1, more, "hello")
		p.wait(1, 1)
		p.data(1, end, "world")
	}},
	{name: "body read on another goroutine", handler: func(n *notes, w http.ResponseWriter, r *http.Request) {
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(r.Body)
			got <- b
		}()
		w.(http.Flusher).Flush()
		w.Write(bytes.ToUpper(<-got))
	}, client: func(p *peer) {
		p.request(1, more, "POST", "/")
		p.wait(1, 1)
		p.data(1, end, "hello")
	}},
}
