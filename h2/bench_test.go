//lint:file-ignore SA1019 the HTTP/2 of x/net is a peer here

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/cputime"
)

// quickServer answers in the callback, from the reading goroutine.
type quickServer struct{}

func (q *quickServer) OnHeaders(s *Stream, h *Header, e Ending) {}
func (q *quickServer) OnData(s *Stream, b tarn.Buffer, e Ending) {
	if e == End {
		s.Post(&Out{Block: testResponse, Data: b, TrailerBlock: testTrailer})
		s.Release()
		return
	}
	s.Consumed(b.Len())
	b.Free()
}
func (q *quickServer) OnReset(s *Stream, err error) { s.Release() }

// handServer answers on one of a few goroutines that are kept for reuse.
type handServer struct {
	jobs chan *job
	idle sync.Pool
}

type job struct {
	s    *Stream
	body tarn.Chain
}

func newHandServer(t testing.TB, n int) *handServer {
	h := &handServer{jobs: make(chan *job, 128)}
	h.idle.New = func() any { return new(job) }
	t.Cleanup(func() { close(h.jobs) })
	for range n {
		go func() {
			ctx := context.Background()
			for j := range h.jobs {
				j.s.Write(ctx, &Out{Block: testResponse, Rest: &j.body, TrailerBlock: testTrailer})
				j.s.Release()
				h.idle.Put(j) // no stream of these tests is reset, so no callback uses it any more
			}
		}()
	}
	return h
}

func (h *handServer) OnHeaders(s *Stream, _ *Header, e Ending) {
	if s.Value == nil {
		j := h.idle.Get().(*job)
		j.s = s
		s.Value = j
	}
}

func (h *handServer) OnData(s *Stream, b tarn.Buffer, e Ending) {
	j := s.Value.(*job)
	j.body.Append(b)
	if e == End {
		h.jobs <- j
		return
	}
	s.Consumed(b.Len())
}

func (h *handServer) OnReset(s *Stream, err error) {
	j := s.Value.(*job)
	j.body.Free()
	s.Release()
}

// quickClient wakes the caller when the trailers come.
type quickClient struct{}

type waiter struct {
	done chan error
	n    int
}

func (quickClient) OnHeaders(s *Stream, h *Header, e Ending) {
	if e == End {
		s.Value.(*waiter).done <- nil
	}
}
func (quickClient) OnData(s *Stream, b tarn.Buffer, e Ending) {
	w := s.Value.(*waiter)
	w.n += b.Len()
	s.Consumed(b.Len())
	b.Free()
	if e == End {
		w.done <- nil
	}
}
func (quickClient) OnReset(s *Stream, err error) { s.Value.(*waiter).done <- err }

func benchPair(b testing.TB, w wiring, sh Handler) (*Conn, func()) {
	a, z := w(b)
	pool := tarn.Shared()
	c, err := NewClient(a, quickClient{}, Config{Pool: pool})
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewServer(z, sh, Config{Pool: pool, MaxStreams: 1000})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(2)
	go func() { defer wg.Done(); c.Run() }()
	go func() { defer wg.Done(); s.Run() }()
	return c, func() { c.Close(); s.Close(); wg.Wait() }
}

func callOnce(c *Conn, w *waiter, ctx context.Context, body []byte) error {
	d := tarn.Shared().Get(len(body))
	copy(d.Bytes(), body)
	s, err := c.Open(ctx, w, &Out{Block: testRequest, Data: d, Ending: End})
	if err != nil {
		return err
	}
	err = <-w.done
	s.Release()
	return err
}

func BenchmarkUnary(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 1 << 20} {
		for _, callers := range []int{1, 8, 64} {
			name := fmt.Sprintf("size=%d/callers=%d", size, callers)
			if size <= 1000 {
				b.Run("tarn-inline/"+name, func(b *testing.B) { benchTarn(b, tcpWiring, &quickServer{}, size, callers) })
			}
			b.Run("tarn-worker/"+name, func(b *testing.B) { benchTarn(b, tcpWiring, newHandServer(b, 8), size, callers) })
			b.Run("tarn-tls/"+name, func(b *testing.B) { benchTarn(b, tlsWiring, newHandServer(b, 8), size, callers) })
			b.Run("tarn-wrapped/"+name, func(b *testing.B) { benchTarn(b, opaqueWiring, newHandServer(b, 8), size, callers) })
			b.Run("xnet/"+name, func(b *testing.B) { benchXNet(b, size, callers) })
		}
	}
}

// opaqueWiring is TCP behind a type that package wire does not recognise as TCP.
func opaqueWiring(t testing.TB) (net.Conn, net.Conn) {
	a, b := tcpWiring(t)
	return struct{ net.Conn }{a}, struct{ net.Conn }{b}
}

func benchTarn(b *testing.B, w wiring, h Handler, size, callers int) {
	c, stop := benchPair(b, w, h)
	defer stop()
	body := make([]byte, size)
	b.ReportAllocs()
	b.SetBytes(int64(2 * size))
	b.ResetTimer()
	before := cputime.Used()
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := &waiter{done: make(chan error, 1)}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for range n {
				if err := callOnce(c, w, ctx, body); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cputime.Used()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func benchXNet(b *testing.B, size, callers int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		(&http2.Server{MaxConcurrentStreams: 1000}).ServeConn(nc, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Trailer", "Grpc-Status")
			w.Write(body)
			w.Header().Set("Grpc-Status", "0")
		})})
	}()
	tr := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return net.Dial("tcp", l.Addr().String())
	}}
	defer tr.CloseIdleConnections()
	body := make([]byte, size)
	b.ReportAllocs()
	b.SetBytes(int64(2 * size))
	b.ResetTimer()
	before := cputime.Used()
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range n {
				req, _ := http.NewRequest("POST", "http://x/test.Service/Method", bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/grpc")
				res, err := tr.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cputime.Used()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
