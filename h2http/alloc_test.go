package h2http_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/preset"
)

// rawGetter sends the same GET again and again and allocates nothing.
type rawGetter struct {
	t    testing.TB
	nc   net.Conn
	req  []byte // a HEADERS frame
	id   uint32
	head [9]byte
	body []byte
}

func newRawGetter(t testing.TB, addr string) *rawGetter {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	g := &rawGetter{t: t, nc: nc, body: make([]byte, 1<<20), id: 1}
	io.WriteString(nc, http2.ClientPreface)
	http2.NewFramer(nc, nil).WriteSettings()
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for range 2 { // the second time everything is in the table
		b.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/path"}, {Name: ":authority", Value: "example.com"}, {Name: "user-agent", Value: "test"}, {Name: "accept", Value: "*/*"}} {
			enc.WriteField(f)
		}
		g.req = append([]byte{0, 0, byte(b.Len()), byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders | http2.FlagHeadersEndStream), 0, 0, 0, 0}, b.Bytes()...)
		g.get()
	}
	return g
}

// get sends one request and reads its answer.
func (g *rawGetter) get() {
	binary.BigEndian.PutUint32(g.req[5:], g.id)
	if _, err := g.nc.Write(g.req); err != nil {
		g.t.Fatal(err)
	}
	for {
		if _, err := io.ReadFull(g.nc, g.head[:]); err != nil {
			g.t.Fatal(err)
		}
		n := int(g.head[0])<<16 | int(g.head[1])<<8 | int(g.head[2])
		if _, err := io.ReadFull(g.nc, g.body[:n]); err != nil {
			g.t.Fatal(err)
		}
		typ, id := http2.FrameType(g.head[3]), binary.BigEndian.Uint32(g.head[5:])
		if id == g.id && (typ == http2.FrameData || typ == http2.FrameHeaders) && g.head[4]&1 != 0 {
			g.id += 2
			return
		}
	}
}

// mallocs returns how many allocations a call of f takes.
func mallocs(f func()) float64 {
	n, _ := allocated(f)
	return n
}

// allocated returns how many allocations a call of f takes, and their bytes.
func allocated(f func()) (mallocs, bytes float64) {
	const n = 500
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	collect()
	for range 200 {
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
}

// collect has the finalizers run by which pools, those of earlier tests too, learn of a cycle of the garbage collection: they
// allocate. One that is set in a finalizer of the first cycle is queued behind those.
func collect() {
	for range 2 {
		done := make(chan struct{})
		runtime.SetFinalizer(new([1 << 10]byte), func(*[1 << 10]byte) { close(done) })
		runtime.GC()
		<-done
	}
}

// TestAllocations bounds what a GET without content costs the server.
func TestAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	answer, values := []byte("0123456789"), []string{"a/b"}
	for _, c := range []struct {
		name        string
		most, bytes float64
		handler     http.Handler
	}{
		// The exchange (896 bytes) and the map of the request's header (400).
		{"content only", 3, 1300, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(answer) })},
		// Another map, and the value.
		{"with a header", 6, 1740, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Write(answer)
		})},
		{"with a trailer", 6, 1740, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "a")
			w.Write(answer)
		})},
		{"with fields and a trailer, but without the map", 3, 1300, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			preset.Set(w, "Content-Type", values)
			preset.Set(w, http.TrailerPrefix+"Grpc-Status", values)
			w.Write(answer)
		})},
		{"marked as a handler that needs no Header", 1, 900, newReader(func(w http.ResponseWriter, r *http.Request) { w.Write(answer) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			pool, err := tarn.NewPool(tarn.PoolConfig{Name: t.Name()})
			if err != nil {
				t.Fatal(err)
			}
			srv, err := h2http.NewServer(&http.Server{Handler: c.handler}, &h2http.Config{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			srv.Observe() // which allocates nothing
			go srv.Serve(l)
			t.Cleanup(func() { // the client has closed its connection; what its end allocates is not of the next case
				if err := srv.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			g := newRawGetter(t, l.Addr().String())
			n, bytes := allocated(g.get)
			if n > c.most+0.5 || bytes > c.bytes+32 {
				t.Errorf("%.2f allocations and %.0f bytes a request; at most %v and %v", n, bytes, c.most, c.bytes)
			} else {
				t.Logf("%.2f allocations and %.0f bytes a request", n, bytes)
			}
		})
	}
}

// TestClientAllocations bounds what a GET costs client and server together.
func TestClientAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const client, server = 4, 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(answer) })}
	go h2http.Serve(l, srv)
	defer srv.Close()
	rt := &h2http.Transport{DisableCompression: true}
	defer rt.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 2*len(answer))
	n := mallocs(func() {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.ReadFull(resp.Body, content); n != len(answer) || err != io.ErrUnexpectedEOF {
			t.Fatal(n, err)
		}
	})
	if n > client+server+0.5 {
		t.Errorf("%.2f allocations a request; at most %v", n, client+server)
	}
}
