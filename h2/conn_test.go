package h2

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// call is what the tests keep for a stream.
type call struct {
	mu      sync.Mutex
	header  Header
	fields  []Field
	body    []byte
	trailer []Field
	end     bool
	err     error
	done    chan struct{}
	reset   chan struct{} // closed by OnReset
}

func newCall() *call { return &call{done: make(chan struct{}), reset: make(chan struct{})} }

// recorder is a handler that records, and echoes on servers.
type recorder struct {
	t           testing.TB
	serve       func(s *Stream, k *call) // server: called on a goroutine when the request has ended
	mu          sync.Mutex
	resets      int
	calls       sync.WaitGroup
	goAway      chan *GoAwayError
	gotSettings chan struct{}
	once        sync.Once
	hold        bool        // do not consume
	early       atomic.Bool // server: answer the header, do not wait for the rest
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, goAway: make(chan *GoAwayError, 4), gotSettings: make(chan struct{})}
}

func (r *recorder) OnHeaders(s *Stream, h *Header, e Ending) {
	if r.early.Load() {
		s.Post(&Out{Block: testResponse, TrailerBlock: testTrailer})
		s.Release()
		return
	}
	k, _ := s.Value.(*call)
	if k == nil {
		k = newCall()
		s.Value = k
	}
	k.mu.Lock()
	all := append(append([]Field(nil), h.Fields...), h.Extra...)
	if k.header.Method == "" && k.header.Status == 0 {
		k.header = *h
		k.header.Extra = nil
		k.fields = all
	} else {
		k.trailer = all
	}
	k.mu.Unlock()
	if e == End {
		r.ended(s, k, nil)
	}
}

func (r *recorder) OnData(s *Stream, b tarn.Buffer, e Ending) {
	k := s.Value.(*call)
	k.mu.Lock()
	k.body = append(k.body, b.Bytes()...)
	k.mu.Unlock()
	if n := b.Len(); n > 0 && !r.hold {
		s.Consumed(n)
	}
	b.Free()
	if e == End {
		r.ended(s, k, nil)
	}
}

func (r *recorder) OnReset(s *Stream, err error) {
	r.mu.Lock()
	r.resets++
	r.mu.Unlock()
	k, _ := s.Value.(*call)
	if k == nil {
		r.t.Error("OnReset for a stream that was never delivered")
		return
	}
	close(k.reset)
	r.ended(s, k, err)
}

func (r *recorder) ended(s *Stream, k *call, err error) {
	k.mu.Lock()
	already := k.end
	k.end = true
	if err != nil {
		k.err = err
	}
	k.mu.Unlock()
	if already {
		return
	}
	r.mu.Lock()
	serve := r.serve
	r.mu.Unlock()
	if serve != nil && err == nil {
		r.calls.Add(1)
		go func() {
			defer r.calls.Done()
			serve(s, k)
			s.Release()
		}()
	} else if serve != nil {
		s.Release()
	}
	close(k.done)
}

func (r *recorder) OnSettings(*Conn) { r.once.Do(func() { close(r.gotSettings) }) }
func (r *recorder) OnGoAway(_ *Conn, err *GoAwayError) {
	select {
	case r.goAway <- err:
	default:
	}
}
func (r *recorder) OnIdle(*Conn) {}

var (
	testRequest = NewBlock(Field{Name: ":method", Value: "POST"}, Field{Name: ":scheme", Value: "http"},
		Field{Name: ":path", Value: "/test.Service/Method"}, Field{Name: ":authority", Value: "test"},
		Field{Name: "content-type", Value: "application/grpc"}, Field{Name: "te", Value: "trailers"})
	testResponse = NewBlock(Field{Name: ":status", Value: "200"}, Field{Name: "content-type", Value: "application/grpc"})
	testTrailer  = NewBlock(Field{Name: "grpc-status", Value: "0"})
)

// echo answers a request with its body.
func echo(t testing.TB, pool *tarn.Pool) func(*Stream, *call) {
	return func(s *Stream, k *call) {
		err := s.Write(context.Background(), &Out{Block: testResponse, Data: pool.Copy(k.body), TrailerBlock: testTrailer})
		if err != nil {
			t.Logf("echo: %v", err)
		}
	}
}

// pair is a client and a server joined by a connection.
type pair struct {
	pool   *tarn.Pool
	c, s   *Conn
	ch, sh *recorder
	runs   sync.WaitGroup
	cerr   error
	serr   error
}

type wiring func(t testing.TB) (a, b net.Conn)

// pipeWiring is in memory, but for the network that faultnet.Variable names.
func pipeWiring(t testing.TB) (net.Conn, net.Conn) {
	if faultnet.Chosen() {
		return faultnet.Joined(t)
	}
	return bufferedPipe()
}

// memoryWiring is in memory always, for bubbles of synctest.
func memoryWiring(testing.TB) (net.Conn, net.Conn) { return bufferedPipe() }

func tcpWiring(t testing.TB) (net.Conn, net.Conn) { return faultnet.Joined(t) }

func newPair(t testing.TB, w wiring, ccfg, scfg Config) *pair {
	t.Helper()
	pool := tarntest.NewPool(t)
	p := &pair{pool: pool, ch: newRecorder(t), sh: newRecorder(t)}
	p.sh.serve = echo(t, pool)
	ccfg.Pool, scfg.Pool = pool, pool
	ccfg.poller, scfg.poller = quickPoller(), quickPoller()
	if ccfg.idleAfter == 0 { // whenever there is a chance
		ccfg.idleAfter, scfg.idleAfter = 100*time.Microsecond, 100*time.Microsecond
	}
	a, b := w(t)
	var err error
	if p.c, err = NewClient(a, p.ch, ccfg); err != nil {
		t.Fatal(err)
	}
	if p.s, err = NewServer(b, p.sh, scfg); err != nil {
		t.Fatal(err)
	}
	p.runs.Add(2)
	switch a.(type) {
	case wrapped, unpolled:
		p.c.AllowIdle()
		p.s.AllowIdle()
	}
	p.c.Start(func(err error) { p.cerr = err; p.runs.Done() })
	p.s.Start(func(err error) { p.serr = err; p.runs.Done() })
	t.Cleanup(p.stop)
	return p
}

func (p *pair) stop() {
	p.c.Close()
	p.s.Close()
	p.runs.Wait()
	p.sh.calls.Wait()
}

// do makes one exchange.
func (p *pair) do(t testing.TB, body []byte) *call {
	t.Helper()
	k := newCall()
	s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest, Data: p.pool.Copy(body), Ending: End})
	if err != nil {
		t.Error(err)
		return nil
	}
	<-k.done
	s.Release()
	if k.err != nil {
		t.Error(k.err)
	}
	return k
}

// jitterWiring is a network that delivers pieces of random length in random order of goroutines.
func jitterWiring(k faultnet.Kind) wiring {
	return func(t testing.TB) (net.Conn, net.Conn) {
		l := faultnet.New(t, k)
		l.ToServer.Jitter(1)
		l.ToClient.Jitter(2)
		return l.Client, l.Server
	}
}

func forEachWiring(t *testing.T, f func(t *testing.T, w wiring)) {
	wirings := map[string]wiring{"pipe": pipeWiring, "tcp": tcpWiring, "tls": tlsWiring}
	if faultnet.Chosen() {
		delete(wirings, "pipe") // the network that tcpWiring uses, too
	}
	for name, w := range wirings {
		t.Run(name, func(t *testing.T) { f(t, w) })
	}
	for _, k := range faultnet.Kinds {
		t.Run("jitter/"+k.String(), func(t *testing.T) { f(t, jitterWiring(k)) })
	}
}

func TestExchange(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{})
		for _, n := range []int{0, 1, 100, 16 << 10, 100_000, 1 << 20, 5 << 20} {
			body := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
			for range 3 {
				k := p.do(t, body)
				if !bytes.Equal(k.body, body) {
					t.Fatalf("%d bytes sent, %d came back", n, len(k.body))
				}
				if k.header.Status != 200 || fmt.Sprint(k.trailer) != fmt.Sprint([]Field{{Name: "grpc-status", Value: "0"}}) {
					t.Fatalf("response %+v, trailers %v", k.header, k.trailer)
				}
			}
		}
	})
}

func TestManyStreams(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		p := newPair(t, w, Config{}, Config{MaxStreams: 10})
		<-p.ch.gotSettings // the limit is known
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for j := range 10 {
					body := bytes.Repeat([]byte{byte(i)}, (i*977+j*7919)%70_000)
					if k := p.do(t, body); k != nil && !bytes.Equal(k.body, body) {
						t.Errorf("caller %d: another body came back", i)
					}
				}
			}()
		}
		wg.Wait()
	})
}
