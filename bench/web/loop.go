package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// loopReaders are 4 KiB long, as net/http's.
var loopReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// handleLoop returns a server of connections that serves HTTP/1.1 with the least work that a server can do. One goroutine
// a connection serves its requests one after another: it reads them by http.ReadRequest, calls h, and sends each response
// by one write. It has no deadlines and limits, makes no checks, and does not notice that a client closes its connection
// during a call.
func handleLoop(h http.Handler) func(net.Conn) error {
	return func(nc net.Conn) error {
		go loop(nc, h)
		return nil
	}
}

func loop(nc net.Conn, h http.Handler) {
	defer nc.Close()
	br := loopReaders.Get().(*bufio.Reader)
	br.Reset(nc)
	defer loopReaders.Put(br)
	w := &loopWriter{header: make(http.Header)}
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		w.clear()
		h.ServeHTTP(w, r)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if _, err := nc.Write(w.response()); err != nil {
			return
		}
	}
}

// loopWriter holds a response until its handler has returned.
type loopWriter struct {
	header http.Header
	status int
	body   []byte
	out    []byte
}

func (w *loopWriter) clear() {
	clear(w.header)
	w.status, w.body = http.StatusOK, w.body[:0]
}

func (w *loopWriter) Header() http.Header { return w.header }

func (w *loopWriter) WriteHeader(status int) { w.status = status }

func (w *loopWriter) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}

func (w *loopWriter) response() []byte {
	b := append(w.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(append(append(b, ' '), http.StatusText(w.status)...), "\r\n"...)
	for name, values := range w.header {
		for _, v := range values {
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	b = time.Now().UTC().AppendFormat(append(b, "Date: "...), http.TimeFormat)
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(w.body)), 10)
	w.out = append(append(b, "\r\n\r\n"...), w.body...)
	return w.out
}
