package h2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// forEachKind runs f on a link of every kind of connection.
func forEachKind(t *testing.T, f func(t *testing.T, k faultnet.Kind)) {
	for _, k := range faultnet.Kinds {
		t.Run(k.String(), func(t *testing.T) { t.Parallel(); f(t, k) })
	}
}

// linkPair is a pair over a faultnet link, after the exchange of settings.
func linkPair(t *testing.T, k faultnet.Kind, ccfg, scfg Config) (*pair, *faultnet.Link) {
	t.Helper()
	l := faultnet.New(t, k)
	p := newPair(t, func(testing.TB) (net.Conn, net.Conn) { return l.Client, l.Server }, ccfg, scfg)
	<-p.ch.gotSettings
	<-p.sh.gotSettings
	return p, l
}

// within fails the test when done is not closed soon: a hang, by any measure.
func within(t testing.TB, what string, done <-chan struct{}) bool {
	t.Helper()
	select {
	case <-done:
		return true
	case <-time.After(20 * time.Second):
		t.Errorf("%s: still waiting after 20 s", what)
		return false
	}
}

// big are windows that do not hold a Write back, so that the socket does.
var big = Config{Window: 64 << 20, MaxWindow: 64 << 20, ConnWindow: 256 << 20}

// A Write that a full socket blocks ends with its context, on either side and on every kind of connection.
func TestWriteIntoFullSocket(t *testing.T) {
	forEachKind(t, func(t *testing.T, k faultnet.Kind) {
		t.Run("client", func(t *testing.T) {
			p, l := linkPair(t, k, big, big)
			l.Stall()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					s, err := p.c.Open(ctx, newCall(), &Out{Block: testRequest, Data: p.pool.Get(1 << 20), Ending: End})
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Open: %v", err)
						}
						return
					}
					defer s.Release()
				}
			}()
			within(t, "Open", done)
			l.Break(faultnet.RST)
		})
		t.Run("server", func(t *testing.T) {
			p, l := linkPair(t, k, big, big)
			done := make(chan struct{})
			p.sh.serve = func(s *Stream, _ *call) {
				defer close(done)
				l.Stall()
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				for {
					if err := s.Write(ctx, &Out{Data: p.pool.Get(1 << 20)}); err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Write: %v", err)
						}
						return
					}
				}
			}
			s, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
			if err != nil {
				t.Fatal(err)
			}
			within(t, "Write", done)
			l.Break(faultnet.RST)
			s.Release()
		})
	})
}

// TestNothingBlocksOnFullSocket: methods that are documented not to block do not block
// while the socket is full.
func TestNothingBlocksOnFullSocket(t *testing.T) {
	forEachKind(t, func(t *testing.T, k faultnet.Kind) {
		for name, end := range map[string]func(c *Conn){
			"Close": func(c *Conn) { c.Shutdown(""); c.Close() },
			"Abort": func(c *Conn) { c.Abort(EnhanceYourCalm, "enough") },
		} {
			t.Run(name, func(t *testing.T) { nothingBlocks(t, k, end) })
		}
	})
}

func nothingBlocks(t *testing.T, k faultnet.Kind, end func(c *Conn)) {
	p, l := linkPair(t, k, big, big)
	const held = maxReturn // so much is worth a WINDOW_UPDATE
	p.ch.hold = true
	over := make(chan struct{})
	defer close(over)
	p.sh.serve = func(s *Stream, _ *call) {
		if err := s.Write(context.Background(), &Out{Block: testResponse, Data: p.pool.Get(held)}); err != nil {
			t.Error(err)
		}
		<-over // the stream stays open
	}
	unread, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	come := func() int {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		return unread.inflow.unread
	}
	eventually(t, "the response", func() bool { return come() >= held }, func() any { return come() })
	s, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	l.Stall()
	fill, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for s.Write(fill, &Out{Data: p.pool.Get(1 << 20)}) == nil {
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		p.c.Ping(ctx)
		unread.Consumed(held)
		unread.Release()
		s.Post(&Out{Block: testRequest})
		s.Reset(Cancel)
		s.Release()
		p.c.Open(nil, newCall(), &Out{Block: testRequest})
		end(p.c)
	}()
	within(t, "calls that do not block", done)
	within(t, "the connection's end", p.c.Done())
	l.Break(faultnet.RST)
}

// TestBreakReachesStreams: when the connection breaks while streams are being
// written, OnReset is called exactly once for each stream, though its user resets it
// when a Write fails.
func TestBreakReachesStreams(t *testing.T) {
	forEachKind(t, func(t *testing.T, k faultnet.Kind) {
		for _, how := range []faultnet.Ending{faultnet.FIN, faultnet.RST} {
			t.Run(fmt.Sprint([]string{"FIN", "RST"}[how]), func(t *testing.T) {
				const streams = 20
				l := faultnet.New(t, k)
				handler := newResetHandler()
				pool := tarntest.NewPool(t)
				cfg := big
				cfg.Pool = pool
				c, err := NewClient(l.Client, handler, cfg)
				if err != nil {
					t.Fatal(err)
				}
				cfg.MaxStreams = streams
				sh := newRecorder(t)
				srv, err := NewServer(l.Server, sh, cfg)
				if err != nil {
					t.Fatal(err)
				}
				runs := make(chan struct{}, 2)
				go func() { c.Run(); runs <- struct{}{} }()
				go func() { srv.Run(); runs <- struct{}{} }()
				ended := make(chan struct{})
				l.ToServer.CutAfter(100_000, how)
				for range streams {
					go func() {
						defer func() { ended <- struct{}{} }()
						reset := make(chan error, 4)
						s, err := c.Open(context.Background(), reset, &Out{Block: testRequest})
						if err != nil {
							return
						}
						for err == nil {
							err = s.Write(context.Background(), &Out{Data: pool.Get(5000)})
						}
						s.Reset(Cancel)
						select {
						case <-reset:
						case <-time.After(20 * time.Second):
							t.Error("OnReset was not called for a stream")
						}
						s.Release()
						<-c.Done()
						if len(reset) > 0 {
							t.Error("OnReset was called twice for a stream")
						}
					}()
				}
				for range streams {
					<-ended
				}
				if n := c.Streams(); n != 0 {
					t.Errorf("%d streams left", n)
				}
				l.Break(faultnet.RST)
				<-runs
				<-runs
				sh.calls.Wait()
			})
		}
	})
}

// resetHandler is a client's handler that passes on what OnReset says.
type resetHandler struct{}

func newResetHandler() *resetHandler                            { return new(resetHandler) }
func (*resetHandler) OnHeaders(*Stream, *Header, Ending)        {}
func (*resetHandler) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (*resetHandler) OnReset(s *Stream, err error)              { s.Value.(chan error) <- err }
