package h2http_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// openConns counts the connections that a dialler has made and that are open.
type openConns struct{ dialled, open, most atomic.Int32 }

func (o *openConns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	o.dialled.Add(1)
	n := o.open.Add(1)
	for m := o.most.Load(); n > m && !o.most.CompareAndSwap(m, n); m = o.most.Load() {
	}
	return &countedConn{Conn: nc, of: o}, nil
}

// await waits until at most n connections are open: those that are not used are closed in the background.
func (o *openConns) await(t *testing.T, n int32) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for o.open.Load() > n {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d connections are open", o.open.Load())
		}
	}
}

type countedConn struct {
	net.Conn
	once sync.Once
	of   *openConns
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

func (s *script) setStreams(n uint32) {
	s.do(func() { s.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: n}) })
}

func mustGet(t *testing.T, rt http.RoundTripper, url string) {
	req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
}

// TestServerThatPermitsNoStream: requests wait until it does, on one connection.
func TestServerThatPermitsNoStream(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script {
			var raised atomic.Bool
			return &script{
				settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}},
				opened: func(s *script) {
					time.AfterFunc(50*time.Millisecond, func() {
						raised.Store(true)
						s.setStreams(100)
					})
				},
				end: func(s *script, id uint32) {
					if raised.Load() {
						s.answer(id, "200")
						return
					}
					s.do(func() { s.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) }) // it was sent before the SETTINGS came
				},
			}
		})
		var conns openConns
		rt := s.make(t, &clientSetup{dial: conns.dial})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { mustGet(t, rt, url) })
		}
		wg.Wait()
		mustGet(t, rt, url)
		conns.await(t, 1)
	})
}

// TestServerThatPermitsNoStreamAnyMore: the connection is replaced, and does not stay open.
func TestServerThatPermitsNoStreamAnyMore(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script {
			return &script{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 10}}, end: func(s *script, id uint32) {
				s.setStreams(0)
				s.answer(id, "200")
			}}
		})
		var conns openConns
		rt := s.make(t, &clientSetup{dial: conns.dial})
		for range 20 {
			mustGet(t, rt, url)
		}
		if n := conns.most.Load(); n > 4 { // one whose end is under way, and what an http.Transport dials meanwhile
			t.Errorf("%d connections were open at a time", n)
		}
	})
}

// TestMaxConnsPerHost and strict streams: 40 requests at a time, of which a connection takes 4, wait for the connections that are
// permitted.
func TestMaxConnsPerHost(t *testing.T) {
	for name, c := range map[string]struct {
		maxConns int
		http2    *http.HTTP2Config
		most     int32
	}{
		"MaxConnsPerHost": {2, nil, 2},
		"strict streams":  {0, &http.HTTP2Config{StrictMaxConcurrentRequests: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachOwn(t, func(t *testing.T, s clientStack) {
				o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-time.After(time.Millisecond)
				}), func(srv *http.Server) {
					srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 4}
				})
				var conns openConns
				setup := &clientSetup{dial: conns.dial}
				setup.tr.MaxConnsPerHost, setup.tr.HTTP2 = c.maxConns, c.http2
				rt := s.make(t, setup)
				mustGet(t, rt, o.url)
				before := conns.dialled.Load()
				for range 5 {
					var wg sync.WaitGroup
					for range 40 {
						wg.Go(func() { mustGet(t, rt, o.url) })
					}
					wg.Wait()
				}
				if n := conns.dialled.Load(); before != 1 || n > 2*c.most {
					t.Errorf("%d connections were dialled, %d of them for the first request", n, before)
				}
				conns.await(t, c.most)
			})
		})
	}
}

// TestDialledConnectionIsKept: a request finds no stream free and has a connection made. It is kept although a stream has become free
// meanwhile, so that the next requests, as many at a time, have no further one made.
func TestDialledConnectionIsKept(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		entered, leave := make(chan bool), make(chan bool)
		o := startOrigin(t, s.tls, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			entered <- true
			<-leave
		}), func(srv *http.Server) {
			srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
		})
		var conns openConns
		dialling, dial := make(chan bool), make(chan bool)
		setup := &clientSetup{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if conns.dialled.Load() == 1 {
				dialling <- true
				<-dial
			}
			return conns.dial(ctx, network, addr)
		}}
		setup.tr.MaxConnsPerHost = 2
		rt := s.make(t, setup)
		var first, others sync.WaitGroup
		first.Go(func() { mustGet(t, rt, o.url) })
		<-entered
		others.Go(func() { mustGet(t, rt, o.url) })
		<-dialling
		leave <- true
		first.Wait() // a stream is free
		dial <- true
		<-entered
		others.Go(func() { mustGet(t, rt, o.url) })
		<-entered
		leave <- true
		leave <- true
		others.Wait()
		if n := conns.dialled.Load(); n != 2 {
			t.Errorf("%d connections were made for two requests at a time", n)
		}
	})
}
