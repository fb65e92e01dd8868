package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2http"
)

const (
	// idleConns is how many connections are opened.
	idleConns = 500
	// idleTime is how long they have been idle when they are measured.
	idleTime = 2 * time.Second
	// idleLeast is the least memory that can be distinguished from what the rest of the process gains or loses meanwhile.
	idleLeast = 1 << 10
)

// idleConns measures the memory of connections that have served one request. The clients are in the
// same process and hold a net.Conn alone; the memory of connections that no server reads is measured, too, and
// subtracted.
func (s *session) idleConns(ctx context.Context) (Case, error) {
	c := Case{
		Title:   fmt.Sprintf("Idle HTTP/2 connections, %d of them", idleConns),
		Note:    "Heap and stacks of the server, after one request on each connection and two seconds of rest; 1 KiB may be less.",
		Metrics: []Metric{{"mem", "memory/conn", Bytes, Lower}},
	}
	bare, err := idleMemory(ctx, acceptOnly, never)
	if err != nil {
		return c, err
	}
	for _, x := range []struct {
		name  string
		kind  Kind
		serve func(*http.Server, net.Listener) error
	}{
		{"net/http", Peer, func(srv *http.Server, l net.Listener) error { return serveNetHTTP(srv, l, unencrypted) }},
		{"ConfigureServer", Peer, func(srv *http.Server, l net.Listener) error {
			if err := h2http.ConfigureServer(srv, nil); err != nil {
				return err
			}
			return serveNetHTTP(srv, l, unencrypted)
		}},
		{"tarn, Serve", Tarn, func(srv *http.Server, l net.Listener) error { return h2http.Serve(l, srv) }},
	} {
		s.progress.step("%s: %s", c.Title, x.name)
		n, err := idleMemory(ctx, x.serve, always)
		if err != nil {
			return c, fmt.Errorf("idle connections: %s: %w", x.name, err)
		}
		n = max(n-bare, idleLeast)
		c.Rows = append(c.Rows, Row{Name: x.name, Kind: x.kind, Turns: []float64{n}, Values: map[string]float64{"mem": n}})
	}
	c.compare()
	return c, nil
}

// acceptOnly accepts connections and does nothing with them.
func acceptOnly(srv *http.Server, l net.Listener) error {
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	srv.RegisterOnShutdown(func() { l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		all = append(all, c)
	}
}

// answers is whether a server answers requests.
type answers uint8

const (
	never answers = iota
	always
)

// idleMemory returns how many bytes of memory a connection uses in this process.
func idleMemory(ctx context.Context, serve func(*http.Server, net.Listener) error, answers answers) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	answered := make(chan struct{}, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "idle")
		answered <- struct{}{}
	}), ErrorLog: quiet()}
	served := make(chan error, 1)
	go func() { served <- serve(srv, l) }()
	defer func() {
		srv.Shutdown(ctx)
		srv.Close()
		l.Close()
		<-served
	}()
	hello := firstRequest()
	before := liveMemory()
	conns := make([]net.Conn, 0, idleConns)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range idleConns {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return 0, err
		}
		conns = append(conns, c)
		if answers == never {
			continue
		}
		if _, err := c.Write(hello); err != nil {
			return 0, err
		}
		select {
		case <-answered:
		case err := <-served:
			served <- err
			return 0, errors.Join(errors.New("the server has ended"), err)
		}
	}
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	used := (liveMemory() - before) / idleConns
	runtime.KeepAlive(conns)
	return used, nil
}

// liveMemory returns the bytes of heap and stacks in use, without garbage.
func liveMemory() float64 {
	for range 3 {
		runtime.GC() // the second collection shrinks stacks, the third empties pools
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// firstRequest is what a client sends for one request on a new connection.
func firstRequest() []byte {
	var b, block bytes.Buffer
	b.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&b, nil)
	fr.WriteSettings()
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "localhost"}, {Name: ":path", Value: "/"}} {
		enc.WriteField(f)
	}
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	fr.WriteSettingsAck()
	return b.Bytes()
}
